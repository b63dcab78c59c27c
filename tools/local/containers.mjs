/**
 * `npm run test:containers`: the images, and docker-compose.yml as operators run it, on the container engine of this machine, then the
 * planted faults (`--faults`: only these). Without an engine it fails and says how to get it; nothing is installed.
 * `CONTAINER_ENGINE=docker|podman` chooses the engine; `CONTAINERS_KEEP=<folder>` keeps podman's store of images there for the next run.
 */
process.env.TEST_PROJECTS = 'containers';
const only = process.argv.indexOf('--faults');
if (only > 0) process.argv.splice(only, 1, 'test/containers/faults.spec.ts');
else if (process.argv.length === 2) process.argv.push('test/containers');
await import('./test.mjs');
