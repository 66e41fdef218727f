// An issuer of tokens for tests: keys, tokens made with node:crypto, and a server that publishes the keys.
import { createHmac, generateKeyPairSync, sign as signWith } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";

const encoded = (value) => Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64url");

const MAKE = {
  RS256: () => generateKeyPairSync("rsa", { modulusLength: 2048 }),
  ES256: () => generateKeyPairSync("ec", { namedCurve: "P-256" }),
  EdDSA: () => generateKeyPairSync("ed25519"),
};

const SIGN = {
  RS256: (data, key) => signWith("sha256", data, key),
  ES256: (data, key) => signWith("sha256", data, { key, dsaEncoding: "ieee-p1363" }),
  EdDSA: (data, key) => signWith(null, data, key),
};

/** A signing key: { alg, kid, privateKey, publicKey, jwk }, `jwk` as a key set has it. */
export function makeKey(alg, kid = alg.toLowerCase()) {
  const { privateKey, publicKey } = MAKE[alg]();
  return { alg, kid, privateKey, publicKey, jwk: { ...publicKey.export({ format: "jwk" }), kid, alg, use: "sig" } };
}

/** A token with this header and these claims (objects, or text as it is), signed by `signature`, a function of the bytes that are signed. */
export function compact(header, claims, signature) {
  const signed = `${encoded(header)}.${encoded(claims)}`;
  return `${signed}.${Buffer.from(signature(Buffer.from(signed))).toString("base64url")}`;
}

/** A token of a key. Members of `header` go over the usual ones; undefined ones are left out. */
export const signed = (key, claims, header = {}) =>
  compact({ alg: key.alg, typ: "JWT", kid: key.kid, ...header }, claims, (data) => SIGN[key.alg](data, key.privateKey));

/** A token of a secret. */
export const hmac = (secret, claims, header = {}) =>
  compact({ alg: "HS256", ...header }, claims, (data) => createHmac("sha256", secret).update(data).digest());

/**
 * Publishes keys. `issuer.keys` are those that are told now; `issuer.answer`, a function of (request, response), answers instead when it is
 * set; `issuer.fetches` counts the requests.
 */
export async function publish(...keys) {
  const issuer = { keys, answer: undefined, fetches: 0 };
  const server = createServer((request, response) => {
    issuer.fetches += 1;
    if (issuer.answer) return issuer.answer(request, response);
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ keys: issuer.keys.map(({ jwk }) => jwk) }));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  issuer.url = `http://127.0.0.1:${server.address().port}/jwks.json`;
  issuer.close = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  issuer[Symbol.asyncDispose] = issuer.close;
  return issuer;
}

/** Seconds since 1970, so many from now. */
export const fromNow = (seconds) => Math.floor(Date.now() / 1_000) + seconds;
