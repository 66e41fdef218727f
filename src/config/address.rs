//! An address that a variable gives.

use super::Fault;
use url::Url;

/// The address, without a user, since a secret isn't kept there, and without a fragment, which is never sent. `fits` says which are
/// taken beyond that, and `expected` what to tell otherwise.
pub(super) fn parse(variable: &str, given: &str, fits: impl Fn(&Url) -> bool, expected: &str) -> Result<Url, Fault> {
    let is_plain = |url: &Url| url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    Url::parse(given).ok().filter(|url| is_plain(url) && fits(url)).ok_or_else(|| {
        // What stands before an @ may be a secret.
        let shown = if given.contains('@') { "one with a user".to_owned() } else { format!("{given:?}") };
        Fault::new(variable, format!("must be {expected}; not {shown}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(given: &str) -> Result<String, String> {
        let taken = parse("MCP_X", given, |url| url.scheme() == "https", "an https address");
        taken.map(|url| url.as_str().to_owned()).map_err(|fault| fault.to_string())
    }

    #[test]
    fn an_address_is_taken_if_it_is_plain_and_fits() {
        assert_eq!(parsed("https://a.example:8443/b?c=d"), Ok("https://a.example:8443/b?c=d".to_owned()));
        let told = |shown: &str| Err(format!("MCP_X: must be an https address; not {shown}"));
        assert_eq!(parsed("http://a.example"), told(r#""http://a.example""#));
        assert_eq!(parsed("a.example"), told(r#""a.example""#));
        assert_eq!(parsed("https://a.example/#b"), told(r#""https://a.example/#b""#));
    }

    #[test]
    fn what_may_be_a_secret_isnt_told() {
        for given in ["https://user@a.example", "https://user:s3cret@a.example", "https://:s3cret@a.example"] {
            assert_eq!(parsed(given), Err("MCP_X: must be an https address; not one with a user".to_owned()));
        }
    }
}
