//! `describe_component`: one component of `system.yaml`, with its edges and the flows that pass it.

use super::documents::SYSTEM;
use super::{schema_of, Call, Running, Standing, Tool};
use crate::mcp::tool_result::ToolResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub const TOOL: Tool = Tool {
    name: "describe_component",
    title: "Describe a component",
    description: "Describes one component of the system: what it does, its files, what it uses, what uses it, and the flows through it. \
        A name that doesn't exist is answered with the names that do.",
    cost: 1,
    needs_allowance: false,
    needs_capability: None,
    read_only: true,
    input: schema_of::<Arguments>,
    output: Some(schema_of::<Description>),
    run,
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The component's name, such as mcp-server.
    #[schemars(length(min = 1, max = 100))]
    name: String,
}

#[derive(Serialize, JsonSchema)]
struct Description {
    name: String,
    description: String,
    files: Vec<String>,
    uses: Vec<Edge>,
    used_by: Vec<Edge>,
    /// Names of flows.
    flows: Vec<String>,
}

#[derive(Clone, Deserialize, Serialize, JsonSchema)]
struct Edge {
    from: String,
    to: String,
    kind: String,
}

#[derive(Deserialize)]
struct System {
    components: Vec<Component>,
    edges: Vec<Edge>,
    flows: Vec<Flow>,
}

#[derive(Deserialize)]
struct Component {
    name: String,
    description: String,
    files: Vec<String>,
}

#[derive(Deserialize)]
struct Flow {
    name: String,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    from: String,
    to: String,
}

fn run(call: Call) -> Running {
    call.answer(|arguments: Arguments, _: Standing| match serde_json::from_str(SYSTEM) {
        Ok(system) => describe(system, &arguments.name),
        Err(_) => ToolResult::error("The description of the system can't be read."),
    })
}

fn describe(system: System, name: &str) -> ToolResult {
    let Some(component) = system.components.iter().find(|component| component.name == name) else {
        let names: Vec<_> = system.components.iter().map(|component| component.name.as_str()).collect();
        return ToolResult::error(format!("There is no component {name}. There are {}.", names.join(", ")));
    };
    let edges =
        |wanted: fn(&Edge) -> &String| system.edges.iter().filter(|edge| wanted(edge) == name).cloned().collect();
    let passes = |flow: &&Flow| flow.steps.iter().any(|step| step.from == name || step.to == name);
    ToolResult::structured(&Description {
        name: component.name.clone(),
        description: component.description.clone(),
        files: component.files.clone(),
        uses: edges(|edge| &edge.from),
        used_by: edges(|edge| &edge.to),
        flows: system.flows.iter().filter(passes).map(|flow| flow.name.clone()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(name: &str) -> ToolResult {
        describe(serde_json::from_str(SYSTEM).unwrap(), name)
    }

    #[test]
    fn the_server_uses_the_limiter_and_both_flows_pass_it() {
        let server = described("mcp-server").structured.unwrap();
        let uses = server["uses"].as_array().unwrap();
        assert!(uses.contains(&serde_json::json!({"from": "mcp-server", "to": "rate-limiter", "kind": "rpc"})));
        assert_eq!(server["flows"], serde_json::json!(["tool-call", "rate-limited-call", "gateway-call"]));
        assert!(!described("rate-limiter").structured.unwrap()["used_by"].as_array().unwrap().is_empty());
    }

    #[test]
    fn an_unknown_name_is_answered_with_those_that_exist() {
        let unknown = described("nope");
        assert!(unknown.is_error);
        assert!(unknown.content[0]["text"].as_str().unwrap().contains("rate-limiter"));
    }
}
