/** How sure a figure is that was measured many times on a machine with neighbours. */

const rounded = (value) => Number(value.toFixed(3));

/**
 * @param {number[]} values of independent rounds
 * @returns the median, the quartiles, and the 95 % bounds of the median (order statistics: nothing is
 *   assumed about the noise)
 */
export function medianWithSpread(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (index) => rounded(sorted[Math.min(sorted.length - 1, Math.max(0, Math.floor(index)))]);
  const half = sorted.length / 2;
  const reach = 0.98 * Math.sqrt(sorted.length);
  return {
    median: at(half),
    quartiles: [at(sorted.length / 4), at((sorted.length * 3) / 4)],
    median_95: [at(half - reach), at(half + reach)],
  };
}
