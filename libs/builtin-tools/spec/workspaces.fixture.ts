import { randomUUID } from 'node:crypto';
import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { isToolError, type JsonObject } from '@toolfleet/contracts';
import { EgressClient, egressFetch } from '@toolfleet/egress';
import { SystemClock, type Clock } from '@toolfleet/resilience';
import { S3_KEY, startS3 } from '@toolfleet/testing';
import { afterAll, beforeAll } from 'vitest';
import { BoundedWork } from '../src/bounded/bounded-work.js';
import { MANIFEST } from '../src/manifest.js';
import { runTool } from './run-tool.fixture.js';
import { LocalWorkspaceStore } from '../src/files/local-workspace-store.js';
import { S3WorkspaceStore } from '../src/files/s3-workspace-store.js';
import type { WorkspaceStore } from '../src/files/workspace-store.js';
import { Workspaces } from '../src/files/workspaces.js';
import { DEFAULT_WORKSPACE_LIMITS } from '../src/files/quota.js';

let bounded: BoundedWork;
/** Runs the bounded work of file tools for the spec that calls it. */
export function runBoundedWork(): void {
  beforeAll(() => {
    bounded = new BoundedWork(new SystemClock());
  });
  afterAll(() => bounded.close());
}

/** Calls a file tool by name in the project `shop` of tenant acme. */
export function caller(store: WorkspaceStore, limits = DEFAULT_WORKSPACE_LIMITS, clock: Clock = new SystemClock()) {
  const workspaces = new Workspaces(store, clock, limits);
  return async (name: string, args: JsonObject, context: JsonObject = { project_id: 'shop' }) => {
    const tool = MANIFEST.find((one) => one.metadata.name === name);
    if (!tool) throw new Error(`no tool ${name}`);
    return (await runTool(tool, args, { services: { workspaces, bounded }, context })).output as JsonObject;
  };
}
/** Error of a call that must fail. */
export const catchToolError = async (pending: Promise<unknown>) => {
  const error = await pending.catch((reason: unknown) => reason);
  if (!isToolError(error) || error.code !== 'TOOL_ERROR')
    throw new Error(`expected a tool error, got ${String(error)}`);
  return error.message;
};

type MakeStore = (root: string) => Promise<{ store: WorkspaceStore; stop?: () => Promise<void> }>;

/** Every kind of store; the local one lies below `root`. */
export const STORES: [string, MakeStore][] = [
  ['local volume', async (root) => ({ store: new LocalWorkspaceStore(await mkdtemp(join(root, 'store-'))) })],
  [
    'S3-compatible bucket',
    async () => {
      const server = await startS3(2);
      const { store, stop } = inBucket({
        endpoint: server.endpoint,
        accessKeyId: S3_KEY.id,
        secretAccessKey: S3_KEY.secret,
      });
      return { store, stop: () => stop().then(server.stop) };
    },
  ],
];

type Place = { endpoint: string; accessKeyId: string; secretAccessKey: string };

/** A store in the bucket of a server. */
export function inBucket(place: Place, prefix = 'ws/') {
  const egress = new EgressClient({ allowlist: [], allowedEndpoints: [place.endpoint] });
  const store = new S3WorkspaceStore({
    ...place,
    bucket: 'bucket',
    region: 'eu-central-1',
    prefix,
    fetch: egressFetch(egress),
  });
  return { store, stop: () => egress.close() };
}

/** The same tests on any S3 server. */
export const bucketOf = (place: Place | undefined): [string, MakeStore][] =>
  place ? [[`bucket at ${place.endpoint}`, async () => inBucket(place, `ws-${randomUUID()}/`)]] : [];
