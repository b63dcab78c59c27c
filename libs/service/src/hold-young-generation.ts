import { setFlagsFromString } from 'node:v8';

/**
 * Keeps the young generation at the size that it has. V8 doubles it each time that as much as it holds has survived collections, to 128
 * MiB on a large machine, and keeps it then. For a service that builds large structures now and then, such as the registry when it
 * converts a document, that is more memory than the structures; short-lived objects fit into a small one as well.
 */
export function holdYoungGeneration(): void {
  setFlagsFromString('--semi-space-growth-factor=1');
}
