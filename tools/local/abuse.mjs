/** `npm run test:abuse`: the abuse tests at full length, about ten minutes; `npm test` runs a twentieth of each. */
process.env.ABUSE_LENGTH = 'full';
process.env.TEST_PROJECTS = 'abuse';
if (process.argv.length === 2) process.argv.push('test/abuse');
await import('./test.mjs');
