// peer.mjs, whose objects count what they ask of their storage.
import * as peer from "./peer.mjs";
import { counting, counts } from "./counted.mjs";

export class Bucket extends peer.Bucket {
  take() {
    counts.questions += 1;
    return super.take();
  }
}

export default counting(peer.default);
