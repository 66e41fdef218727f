// A column of JavaScript, whose objects count what they ask of their storage.
import * as column from "#column";
import { counting, counts } from "./counted.mjs";

export class Bucket extends column.Bucket {
  take() {
    counts.questions += 1;
    return super.take();
  }
}

export default counting(column.default);
