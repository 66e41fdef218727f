//! The Worker's environment -> the configuration, once for each isolate: variables change with a deploy only.

use crate::config::upstream::BINDING;
use crate::config::{self, Config, Fault, PREFIX};
use crate::tools;
use serde_json::{json, Map, Value};
use std::cell::OnceCell;
use std::rc::Rc;
use worker::js_sys::{Array, Object, JSON};
use worker::wasm_bindgen::JsCast as _;
use worker::{console_error, Env};

thread_local! {
    static CONFIG: OnceCell<Rc<Result<Config, Fault>>> = const { OnceCell::new() };
}

/// The configuration, or what is wrong with it (which is logged once).
pub fn config(env: &Env) -> Rc<Result<Config, Fault>> {
    CONFIG.with(|config| {
        let config = config.get_or_init(|| {
            let config = config::parse_with(&variables(env), &tools::defaults(), env.service(BINDING).is_ok());
            if let Err(fault) = &config {
                console_error!("{}", json!({ "event": "configuration_fault", "fault": fault.to_string() }));
            }
            Rc::new(config)
        });
        Rc::clone(config)
    })
}

/// All variables that are ours. What can't be told in JSON is null, which no variable takes.
fn variables(env: &Env) -> Map<String, Value> {
    let mut variables = Map::new();
    for entry in Object::entries(env.unchecked_ref::<Object>()).iter() {
        let entry: Array = entry.unchecked_into();
        let Some(name) = entry.get(0).as_string().filter(|name| name.starts_with(PREFIX)) else {
            continue;
        };
        let text = JSON::stringify(&entry.get(1)).ok().and_then(|text| text.as_string());
        let value = text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null);
        variables.insert(name, value);
    }
    variables
}
