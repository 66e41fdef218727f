// floor.mjs, whose objects count what they ask of their storage.
import * as floor from "./floor.mjs";
import { counting, counts } from "./counted.mjs";

export class Bucket extends floor.Bucket {
  take() {
    counts.questions += 1;
    return super.take();
  }
}

export default counting(floor.default);
