/**
 * `npm run test:containers`: the images, and docker-compose.yml as operators run it, on the container engine of this machine. Without one
 * it fails and says how to get it; nothing is installed. `CONTAINER_ENGINE=docker|podman` chooses the engine; `CONTAINERS_KEEP=<folder>`
 * keeps podman's store of images there for the next run.
 */
process.env.TEST_PROJECTS = 'containers';
if (process.argv.length === 2) process.argv.push('test/containers');
await import('./test.mjs');
