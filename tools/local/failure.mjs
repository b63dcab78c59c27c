/** `npm run test:failure`: every failure test with all of its seeds; `npm test` runs one seed of each. */
process.env.FAILURE_SEEDS = 'all';
process.argv.push('test/failure', 'test/observability/outages.spec.ts');
await import('./test.mjs');
