//! A published JSON Schema (2020-12 where it doesn't say otherwise), and what to say of arguments that don't fit it
//! (specification, server/tools, Input Schema).
//!
//! The text is for a model that has to mend its call: it names each argument and what is wrong with it, and shows as
//! little of the value as possible. Nothing is fetched: no loader is set, so a `$ref` that points elsewhere doesn't compile.

use boon::{Compiler, Draft, ErrorKind, SchemaIndex, Schemas, ValidationError};
use serde_json::Value;

/// Where a schema is kept for the compiler.
const LOCATION: &str = "https://sluice.invalid/arguments.json";

/// And one that is known to be sound: `boon` holds every document against the schema of schemas but one from this host. To make that one
/// would be most of the work of an isolate's first call (decisions/0005).
const SOUND: &str = "https://json-schema.org/sluice/arguments.json";

/// How many faults are told of one call, and how many are looked at.
const MOST_FAULTS: usize = 5;
const MOST_LOOKED_AT: usize = 100;

/// How much is told of one fault, of its place and of a name, in characters: a schema may list choices without end.
const LONGEST_FAULT: usize = 200;
const LONGEST_NAME: usize = 100;

/// A schema that can be used.
pub struct Schema {
    source: Value,
    schemas: Schemas,
    index: SchemaIndex,
}

impl Schema {
    /// Compiles `source`, which may come from anywhere. The error is for the log.
    pub fn compile(source: Value) -> Result<Self, String> {
        Self::compile_at(LOCATION, source)
    }

    /// The same for a schema that a test has compiled before, so that it needn't be held against the schema of schemas again.
    pub fn compile_sound(source: Value) -> Result<Self, String> {
        Self::compile_at(SOUND, source)
    }

    fn compile_at(location: &str, source: Value) -> Result<Self, String> {
        let mut compiler = Compiler::new();
        compiler.set_default_draft(Draft::V2020_12);
        let mut schemas = Schemas::new();
        compiler.add_resource(location, source.clone()).map_err(|error| error.to_string())?;
        let index = compiler.compile(location, &mut schemas).map_err(|error| error.to_string())?;
        Ok(Self { source, schemas, index })
    }

    /// The schema as it is published.
    pub fn source(&self) -> &Value {
        &self.source
    }

    /// Checks the arguments of a call of `tool`. The error is for the model.
    pub fn check(&self, tool: &str, arguments: &Value) -> Result<(), String> {
        let fits = self.schemas.validate(arguments, self.index);
        fits.map_err(|error| format!("Invalid arguments for {tool}: {}.", told(&error)))
    }
}

/// What is wrong, from the errors that have no others below them.
fn told(error: &ValidationError<'_, '_>) -> String {
    let mut faults = Vec::new();
    collect(error, &mut faults);
    faults.dedup();
    let more = faults.len().saturating_sub(MOST_FAULTS);
    faults.truncate(MOST_FAULTS);
    let mut text = faults.join("; ");
    if more > 0 {
        text.push_str(&format!("; and {more} more"));
    }
    text
}

fn collect(error: &ValidationError<'_, '_>, faults: &mut Vec<String>) {
    if faults.len() >= MOST_LOOKED_AT {
        return;
    }
    // Of alternatives, what each of them would have wanted says less than that none of them fits.
    let alternatives = matches!(error.kind, ErrorKind::AnyOf | ErrorKind::OneOf(_) | ErrorKind::Contains);
    if !error.causes.is_empty() && !alternatives {
        return error.causes.iter().for_each(|cause| collect(cause, faults));
    }
    let place = cut(&error.instance_location.to_string(), LONGEST_NAME);
    let what = match &error.kind {
        ErrorKind::Required { want } => {
            return faults.extend(want.iter().map(|name| format!("{place}/{} is missing", cut(name, LONGEST_NAME))))
        }
        ErrorKind::AdditionalProperties { got } => {
            return faults
                .extend(got.iter().map(|name| format!("{place}/{} is not an argument of this tool", shown(name))));
        }
        ErrorKind::Type { got, want } => {
            let want: Vec<String> = want.iter().map(|kind| kind.to_string()).collect();
            format!("must be of type {}, not {got}", want.join(" or "))
        }
        ErrorKind::MinLength { got, want } => format!("must have at least {}, not {got}", characters(*want)),
        ErrorKind::MaxLength { got, want } => format!("must have at most {}, not {got}", characters(*want)),
        ErrorKind::Minimum { got, want } => format!("must be at least {want}, not {got}"),
        ErrorKind::Maximum { got, want } => format!("must be at most {want}, not {got}"),
        ErrorKind::Pattern { want, .. } => format!("must match the pattern {want}"),
        ErrorKind::AnyOf | ErrorKind::OneOf(None) => "fits none of the allowed forms".to_owned(),
        ErrorKind::FalseSchema => "is not allowed here".to_owned(),
        // The library's own texts for the rest show no values but those of the schema and numbers.
        other => other.to_string(),
    };
    let what = cut(&what, LONGEST_FAULT);
    faults.push(if place.is_empty() { format!("the arguments: {what}") } else { format!("{place} {what}") });
}

fn characters(count: usize) -> String {
    if count == 1 {
        "1 character".to_owned()
    } else {
        format!("{count} characters")
    }
}

/// A text, cut to so many characters.
fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most).and_then(|(at, _)| text.get(..at)) {
        Some(beginning) => format!("{beginning}..."),
        None => text.to_owned(),
    }
}

/// A name that a client made up, so that it can be read: cut to a length, and nothing in it that turns text around.
fn shown(name: &str) -> String {
    name.chars().take(60).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn alternatives_are_told_as_one_fault() {
        let schema = Schema::compile(json!({
            "properties": { "a": { "anyOf": [{ "type": "string" }, { "minimum": 3 }] }, "b": false },
        }))
        .unwrap();
        let text = schema.check("pick", &json!({"a": 1, "b": 2})).unwrap_err();
        assert_eq!(text, "Invalid arguments for pick: /a fits none of the allowed forms; /b is not allowed here.");
        assert_eq!(schema.check("pick", &json!({"a": "x"})), Ok(()));
    }

    #[test]
    fn a_reference_to_elsewhere_is_not_fetched() {
        assert!(Schema::compile(json!({"$ref": "https://example.com/schema.json"})).is_err());
        assert!(Schema::compile(json!({"$ref": "file:///etc/passwd"})).is_err());
    }

    #[test]
    fn a_schema_that_makes_no_sense_or_is_of_no_known_dialect_is_an_error() {
        for source in [
            json!(7),
            json!({"type": "text"}),
            json!({"pattern": "("}),
            json!({"multipleOf": 0}),
            json!({"$schema": "https://example.com/dialect"}),
            json!({"$ref": "#/nowhere"}),
        ] {
            assert!(Schema::compile(source.clone()).is_err(), "{source}");
        }
    }

    #[test]
    fn what_is_sound_is_not_held_against_the_schema_of_schemas() {
        // Which asks for a text here.
        let sound = json!({"$defs": {"text": {"minLength": 2}}, "$ref": "#/$defs/text"});
        let unsound = json!({"minLength": 2, "title": 7});
        assert!(Schema::compile(sound.clone()).is_ok() && Schema::compile(unsound.clone()).is_err());
        for source in [sound, unsound] {
            let schema = Schema::compile_sound(source).unwrap();
            assert_eq!(schema.check("pick", &json!("ab")), Ok(()));
            assert!(schema.check("pick", &json!("a")).is_err());
        }
        assert!(
            Schema::compile_sound(json!({"$ref": "https://example.com/schema.json"})).is_err(),
            "nothing is fetched"
        );
    }

    #[test]
    fn a_schema_names_its_own_dialect_and_one_that_goes_in_circles_ends() {
        let old = Schema::compile(json!({
            "$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"type": "integer"}},
        }));
        assert!(old.unwrap().check("old", &json!({"a": "x"})).is_err());
        let circle = Schema::compile(json!({"$ref": "#"})).unwrap();
        let _ = circle.check("circle", &json!({"a": {"a": 1}}));
        let tree = json!({"properties": {"a": {"$ref": "#"}, "n": {"type": "number"}}});
        let tree = Schema::compile(tree).unwrap();
        assert!(tree.check("tree", &json!({"a": {"a": {"n": 1}}})).is_ok());
        assert!(tree.check("tree", &json!({"a": {"a": {"n": "x"}}})).is_err());
    }

    #[test]
    fn what_is_told_is_short_whatever_the_schema_says() {
        let many: Vec<_> = (0..10_000).map(|n| format!("choice {n}")).collect();
        let long = "x".repeat(10_000);
        let schema = json!({"required": [long], "properties": {"a": {"enum": many}, "b": {"pattern": long}}});
        let arguments = json!({"a": "no choice", "b": "y"});
        let text = Schema::compile(schema).unwrap().check("pick", &arguments).unwrap_err();
        assert!(text.len() < 1_000 && text.contains("/a value must be one of 'choice 0', 'choice 1'"), "{text}");
        let schema = Schema::compile(json!({"additionalProperties": {"$ref": "#"}, "type": "object"})).unwrap();
        let text = schema.check("dig", &json!({long: 1})).unwrap_err();
        assert!(text.len() < 1_000 && text.ends_with("must be of type object, not number."), "{text}");
    }
}
