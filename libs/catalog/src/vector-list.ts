/** Vectors that are compared exactly: those whose signs differ least, ten times as many as are wanted. */
const COMPARED = 10;
const BITS = 32;

/**
 * Vectors of length 1 in a fixed order, to find those nearest to another one. Long lists are first narrowed by the signs of the
 * numbers, of which one operation compares 32: comparing 10,000 vectors of 1,536 numbers one by one takes 20 times as long and would
 * hold up calls.
 */
export class VectorList {
  /** A bit for each number: 1 if it is negative. */
  readonly #signs: readonly Uint32Array[];

  constructor(private readonly vectors: readonly Float32Array[]) {
    this.#signs = vectors.map(signsOf);
  }

  /** Positions of the nearest vectors, nearest first. */
  nearest(wanted: Float32Array, count: number): number[] {
    const candidates = this.vectors.length <= count * COMPARED ? [...this.vectors.keys()] : this.#likely(wanted, count);
    return candidates
      .map((position) => ({ position, nearness: dot(wanted, this.vectors[position]!) }))
      .toSorted((a, b) => b.nearness - a.nearness)
      .slice(0, count)
      .map(({ position }) => position);
  }

  #likely(wanted: Float32Array, count: number): number[] {
    const signs = signsOf(wanted);
    const different = new Uint16Array(this.#signs.length);
    for (let position = 0; position < different.length; position += 1)
      different[position] = differentBits(signs, this.#signs[position]!);
    const most = different.toSorted()[count * COMPARED - 1]!;
    return [...this.vectors.keys()].filter((position) => different[position]! <= most).slice(0, 2 * count * COMPARED);
  }
}

function signsOf(vector: Float32Array): Uint32Array {
  const signs = new Uint32Array(Math.ceil(vector.length / BITS));
  for (let index = 0; index < vector.length; index += 1)
    if (vector[index]! < 0) signs[Math.floor(index / BITS)]! |= 1 << (index % BITS);
  return signs;
}

function differentBits(a: Uint32Array, b: Uint32Array): number {
  let sum = 0;
  for (let index = 0; index < a.length; index += 1) {
    let bits = a[index]! ^ b[index]!;
    bits -= (bits >>> 1) & 0x55555555;
    bits = (bits & 0x33333333) + ((bits >>> 2) & 0x33333333);
    sum += Math.imul((bits + (bits >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
  }
  return sum;
}

/** 0 for vectors of different length. */
function dot(a: Float32Array, b: Float32Array): number {
  if (b.length !== a.length) return 0;
  let sum = 0;
  for (let index = 0; index < a.length; index += 1) sum += a[index]! * b[index]!;
  return sum;
}
