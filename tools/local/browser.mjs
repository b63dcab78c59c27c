/**
 * `npm run test:browser`: the console in a real Chromium (`CHROMIUM_PATH`, else the usual places) against a fleet of real
 * processes. Where there is none every test is a skip that shows; nothing is downloaded.
 */
process.env.TEST_PROJECTS = 'browser';
process.argv.push('test/browser');
await import('./test.mjs');
