//! `exchange_rate`: what one currency is worth in another, asked of an API.

use super::{schema_of, Call, Running, Tool};
use crate::mcp::tool_result::ToolResult;
use crate::upstream::client::{Client, Outgoing};
use crate::upstream::credential::Credential;
use crate::upstream::patience::{send, Fault, Patience};
use schemars::JsonSchema;
use serde::Deserialize;
use url::Url;

pub const TOOL: Tool = Tool {
    name: "exchange_rate",
    title: "Exchange rate",
    description: "Tells what one unit of a currency is worth in others, as of today. Costs 5 tokens.",
    cost: 5,
    needs_allowance: false,
    needs_capability: None,
    read_only: true,
    input: schema_of::<Arguments>,
    output: None,
    run,
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The currency's code, such as EUR.
    #[schemars(regex(pattern = "^[A-Z]{3}$"))]
    currency: String,
}

fn run(call: Call) -> Running {
    Box::pin(async move {
        match serde_json::from_value(call.arguments) {
            Ok(Arguments { currency }) => look_up(&currency).await,
            Err(error) => ToolResult::error(format!("Invalid arguments: {error}.")),
        }
    })
}

async fn look_up(currency: &str) -> ToolResult {
    let Ok(url) = Url::parse_with_params("https://rates.example/latest", [("base", currency)]) else {
        return ToolResult::error("The address of the rates is wrong.");
    };
    let request = Outgoing { method: "GET".to_owned(), url, headers: Vec::new(), body: None };
    let client = Client { timeout_ms: 5_000, ..Client::default() };
    // Reading twice does no harm, and no attempt begins later than two seconds after the first.
    let patience = Patience { is_repeatable: true, left_us: 2_000_000 };
    match send(&client, &request, Credential::NONE, patience).await {
        Ok(mut answer) if answer.status == 200 => match answer.response.text().await {
            Ok(rates) => ToolResult::text(rates),
            Err(_) => ToolResult::error("The rates came only in part. Call again."),
        },
        Ok(_) => ToolResult::error(format!("There are no rates for {currency}.")),
        Err(Fault::Pause(us)) => {
            let seconds = us.div_ceil(1_000_000);
            ToolResult::error(format!(
                "The rates are asked for too often. Wait {seconds} seconds before the next call."
            ))
        }
        Err(Fault::Lost(_) | Fault::NeverSent) => ToolResult::error("The rates can't be reached. Call again later."),
    }
}
