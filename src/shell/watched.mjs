// A body that Rust is still writing when the response has gone.
import { whenBroken } from "./instance.mjs";

/**
 * The same body, but broken off when the instance that writes it is broken: by itself it would never end then. It is handed on piece by
 * piece, since a pipe that waits for the next piece doesn't hear that it is over.
 */
export function watched(body) {
  const { readable, writable } = new IdentityTransformStream();
  const [reader, writer] = [body.getReader(), writable.getWriter()];
  // Whoever tells of it may do so within another request: only a promise of this one's leads back.
  let tell;
  const broken = new Promise((resolve) => (tell = resolve));
  const end = whenBroken(tell);
  const stop = (error) => {
    end();
    writer.abort(error).catch(() => {});
    reader.cancel(error).catch(() => {});
  };
  broken.then(() => stop(new Error("the instance is broken")));
  // The client has gone.
  writer.closed.catch(stop);
  const handOn = async () => {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      await writer.write(value);
    }
    end();
    await writer.close();
  };
  handOn().catch(stop);
  return readable;
}
