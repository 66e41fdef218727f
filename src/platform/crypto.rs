//! Signatures, checked by the runtime's WebCrypto. Nothing of it is written here, and nothing has to be carried along.

use super::waiting::settled;
use std::result::Result;
use worker::js_sys::{Array, Promise, Uint8Array, JSON};
use worker::wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(catch, js_namespace = ["crypto", "subtle"], js_name = importKey)]
    fn import_key(
        format: &str,
        key: &JsValue,
        algorithm: &JsValue,
        extractable: bool,
        uses: &Array,
    ) -> Result<Promise, JsValue>;

    #[wasm_bindgen(catch, js_namespace = ["crypto", "subtle"])]
    fn verify(
        algorithm: &JsValue,
        key: &JsValue,
        signature: &Uint8Array,
        data: &Uint8Array,
    ) -> Result<Promise, JsValue>;
}

/// What a signature is checked with.
#[derive(Clone, Copy, Debug)]
pub enum Key<'a> {
    /// HMAC with SHA-256 and this secret.
    HmacSha256(&'a [u8]),
    /// RSASSA-PKCS1-v1_5 with SHA-256 and this JWK.
    RsaSha256(&'a str),
    /// ECDSA on P-256 with SHA-256 and this JWK.
    EcdsaP256Sha256(&'a str),
    /// Ed25519 and this JWK.
    Ed25519(&'a str),
}

impl Key<'_> {
    /// The parameters for importing the key and for checking with it: each call reads what it needs of them.
    fn parameters(self) -> &'static str {
        match self {
            Self::HmacSha256(_) => r#"{"name":"HMAC","hash":"SHA-256"}"#,
            Self::RsaSha256(_) => r#"{"name":"RSASSA-PKCS1-v1_5","hash":"SHA-256"}"#,
            Self::EcdsaP256Sha256(_) => r#"{"name":"ECDSA","namedCurve":"P-256","hash":"SHA-256"}"#,
            Self::Ed25519(_) => r#"{"name":"Ed25519"}"#,
        }
    }
}

/// Whether `signature` is that of `data`. An error says that the key is of no use.
pub async fn is_signed(key: Key<'_>, signature: &[u8], data: &[u8]) -> Result<bool, String> {
    check(key, signature, data).await.map_err(|error| format!("WebCrypto doesn't take a key: {error:?}"))
}

async fn check(key: Key<'_>, signature: &[u8], data: &[u8]) -> Result<bool, JsValue> {
    let parameters = JSON::parse(key.parameters())?;
    let (format, material) = match key {
        Key::HmacSha256(secret) => ("raw", Uint8Array::from(secret).into()),
        Key::RsaSha256(jwk) | Key::EcdsaP256Sha256(jwk) | Key::Ed25519(jwk) => ("jwk", JSON::parse(jwk)?),
    };
    let uses = Array::of1(&JsValue::from_str("verify"));
    let imported = settled(&import_key(format, &material, &parameters, false, &uses)?).await?;
    let verified = verify(&parameters, &imported, &Uint8Array::from(signature), &Uint8Array::from(data))?;
    Ok(settled(&verified).await?.is_truthy())
}
