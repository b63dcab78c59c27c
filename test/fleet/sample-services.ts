/** The services of the tour (an API, an MCP server, a scripted model) in a separate process, for fleets of system tests. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { endChild, eventually, freePort, spawnChild } from '@toolfleet/testing';

const MAIN = join(fileURLToPath(new URL('../..', import.meta.url)), 'tools/samples/dist/main.js');

/** Samples that run. */
export interface SampleServices {
  /** Origins. */
  readonly api: string;
  readonly mcp: string;
  readonly model: string;
  /** Content of the fleet's configuration file that makes tools of them. */
  readonly config: object;
  /** Settings of services that reach them. */
  readonly env: Readonly<Record<string, string>>;
  stop(): Promise<void>;
}

/** Starts the samples on free loopback ports. */
export async function startSampleServices(): Promise<SampleServices> {
  const ports = await Promise.all([freePort(), freePort(), freePort()]);
  const [api, mcp, model] = ports.map((port) => `http://127.0.0.1:${port}`) as [string, string, string];
  const child = spawnChild(process.execPath, [MAIN], {
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'], // They end when this process does.
    env: {
      PATH: process.env['PATH'],
      HOST: '127.0.0.1',
      SAMPLE_API_PORT: String(ports[0]),
      SAMPLE_MCP_PORT: String(ports[1]),
      SAMPLE_MODEL_PORT: String(ports[2]),
    },
  });
  const stop = async (): Promise<void> => void (await endChild(child));
  try {
    for (const origin of [`${api}/health`, mcp, model]) await eventually('the samples listen', () => listens(origin));
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    api,
    mcp,
    model,
    config: {
      openapi_tools: {
        parcels: {
          enabled: true,
          spec_url: `${api}/openapi.json`,
          base_url: api,
          category: 'logistics',
          name_prefix: 'parcels_',
          auth_type: 'none',
        },
      },
      mcp_servers: { sample: { url: `${mcp}/mcp` } },
      mcp_tools: {
        echo_function: {
          url: `${mcp}/functions`,
          func_name: 'echo',
          description: 'Answers what it was sent',
          parameters: [{ name: 'text', type: 'string', required: true, description: 'What to echo' }],
        },
      },
    },
    env: {
      EGRESS_ALLOWED_ENDPOINTS: [api, mcp, model].join(','),
      MCP_ALLOWED_DOMAINS: '127.0.0.1',
      LLM_BASE_URL: `${model}/v1`,
      LLM_MODEL: 'sample',
      LLM_API_KEY: 'key-of-the-sample-model',
    },
    stop,
  };
}

const listens = (origin: string): Promise<boolean> =>
  fetch(origin).then(
    () => true,
    () => false,
  );
