/** Whether a bench got slower: p99 as a ratio to the yardstick of the same run, against the same ratio of a saved run. */
const TOLERATED = 1.15;

/**
 * @param {object[]} results of this run
 * @param {object[]} saved of an earlier one
 * @returns {string[]} one line per bench that is slower by more than 15 %
 */
export function slower(results, saved) {
  return results.flatMap((result) => {
    const before = ratioOf(saved.find(({ name }) => name === result.name));
    const now = ratioOf(result);
    if (before === undefined || now === undefined || now <= before * TOLERATED) return [];
    return [`${result.name}: p99 is ${now.toFixed(2)} times the yardstick's, it was ${before.toFixed(2)} times`];
  });
}

/** Median over the rounds of measurement / yardstick; undefined for benches without a yardstick. */
function ratioOf(result) {
  const ratios = (result?.rounds ?? [])
    .filter(({ ours_32: ours, bare_32: bare }) => ours && bare)
    .map(({ ours_32: ours, bare_32: bare }) => ours.p99_ms / bare.p99_ms)
    .toSorted((a, b) => a - b);
  return ratios[Math.floor(ratios.length / 2)];
}
