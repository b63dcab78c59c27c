/**
 * How long specs wait for a condition that comes, in ms. The one bound of all of them: it only ends a test that hangs, so it allows a machine
 * that is many times slower than the author's.
 */
export const PATIENCE_MS = 300_000;
