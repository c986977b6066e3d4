// What the page does, apart from the page: pictures to pixels, classification, training.

export const SIDE = 8;

/** A drawing of any size (0 to 1, one number a pixel) as 8 by 8 numbers: centred, scaled to fit. */
export function pixels(drawing, width, height) {
  let [left, right, top, bottom] = [width, -1, height, -1];
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      if (drawing[y * width + x] > 0.1) {
        left = Math.min(left, x);
        right = Math.max(right, x);
        top = Math.min(top, y);
        bottom = Math.max(bottom, y);
      }
    }
  }
  const made = new Float32Array(SIDE * SIDE);
  if (right < 0) return made;
  const size = Math.max(right - left, bottom - top) + 1;
  const [x0, y0] = [(left + right + 1 - size) / 2, (top + bottom + 1 - size) / 2];
  for (let row = 0; row < SIDE; row++) {
    for (let column = 0; column < SIDE; column++) {
      let [sum, count] = [0, 0];
      for (let y = Math.floor(y0 + (row * size) / SIDE); y < y0 + ((row + 1) * size) / SIDE; y++) {
        for (let x = Math.floor(x0 + (column * size) / SIDE); x < x0 + ((column + 1) * size) / SIDE; x++) {
          count++;
          if (x >= 0 && y >= 0 && x < width && y < height) sum += drawing[y * width + x];
        }
      }
      made[row * SIDE + column] = count ? Math.min(1, (1.5 * sum) / count) : 0;
    }
  }
  return made;
}

/** The digit that a network sees, how sure it is of each, and the time it took. */
export function classify(network, image) {
  const start = performance.now();
  const { scores } = network.run({ image });
  const milliseconds = performance.now() - start;
  const top = Math.max(...scores);
  const up = Array.from(scores, (s) => Math.exp(s - top));
  const total = up.reduce((a, b) => a + b, 0);
  const shares = up.map((u) => u / total);
  return { digit: shares.indexOf(Math.max(...shares)), shares, milliseconds };
}

/** Rows of a file of floats: a label, then its pixels. */
export function rows(bytes) {
  const numbers = new Float32Array(bytes);
  const length = 1 + SIDE * SIDE;
  return Array.from({ length: numbers.length / length }, (_, k) => ({
    label: numbers[k * length],
    image: numbers.slice(k * length + 1, (k + 1) * length),
  }));
}

/** One step of training on the next rows; the loss. */
export function train(step, data, number, batch) {
  const x = new Float32Array(batch * SIDE * SIDE);
  const y = new BigInt64Array(batch);
  for (let k = 0; k < batch; k++) {
    const row = data[(number * batch + k) % data.length];
    x.set(row.image, k * SIDE * SIDE);
    y[k] = BigInt(row.label);
  }
  return step.run({ x, y }).loss[0];
}
