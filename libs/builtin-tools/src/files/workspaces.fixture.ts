import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { isToolError, type JsonObject } from '@toolfleet/contracts';
import { EgressClient, egressFetch } from '@toolfleet/egress';
import { SystemClock, type Clock } from '@toolfleet/resilience';
import { MANIFEST } from '../manifest.js';
import { runTool } from '../run-tool.fixture.js';
import { LocalWorkspaceStore } from './local-workspace-store.js';
import { startS3 } from './s3-server.fixture.js';
import { KEY } from './s3-signature.fixture.js';
import { S3WorkspaceStore } from './s3-workspace-store.js';
import type { WorkspaceStore } from './workspace-store.js';
import { DEFAULT_WORKSPACE_LIMITS, Workspaces } from './workspaces.js';

/** Calls a file tool by name in the project `shop` of tenant acme. */
export function caller(store: WorkspaceStore, limits = DEFAULT_WORKSPACE_LIMITS, clock: Clock = new SystemClock()) {
  const workspaces = new Workspaces(store, clock, limits);
  return async (name: string, args: JsonObject, context: JsonObject = { project_id: 'shop' }) => {
    const tool = MANIFEST.find((one) => one.metadata.name === name);
    if (!tool) throw new Error(`no tool ${name}`);
    return (await runTool(tool, args, { services: { workspaces }, context })).output as JsonObject;
  };
}
/** What a call that must fail says. */
export const faultOf = async (pending: Promise<unknown>) => {
  const fault = await pending.catch((error: unknown) => error);
  if (!isToolError(fault) || fault.code !== 'TOOL_ERROR') throw new Error(`no fault of a tool: ${String(fault)}`);
  return fault.message;
};

/** Every kind of store; the local one lies below `root`. */
export const STORES: [string, (root: string) => Promise<{ store: WorkspaceStore; stop?: () => Promise<void> }>][] = [
  ['local volume', async (root) => ({ store: new LocalWorkspaceStore(await mkdtemp(join(root, 'store-'))) })],
  [
    'S3-compatible bucket',
    async () => {
      const server = await startS3(2);
      const egress = new EgressClient({ allowlist: [], allowedEndpoints: [server.endpoint] });
      const store = new S3WorkspaceStore({
        endpoint: server.endpoint,
        bucket: 'bucket',
        region: 'eu-central-1',
        accessKeyId: KEY.id,
        secretAccessKey: KEY.secret,
        prefix: 'ws/',
        fetch: egressFetch(egress),
      });
      return {
        store,
        async stop() {
          await egress.close();
          await server.stop();
        },
      };
    },
  ],
];
