/**
 * Contents and start of an image, without a container engine: each service's bundle in a folder outside the
 * repository that is read-only, as another user where the test runs as root, with the environment of deploy/app.Dockerfile.
 */
import { fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  chownSync,
  statSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { startNats, startRedis, startServiceProcess, type NatsServer, type RedisServer } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ServiceName } from '../../apps/standalone/src/standalone.config.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const UID = 10_001;
const isRoot = process.getuid?.() === 0;
const secret = (name: string) => `${name}-of-the-image-test-`.repeat(3);

const { bundle } = (await import(pathToFileURL(join(ROOT, 'tools/bundle.mjs')).href)) as {
  bundle: (app: string, outdir: string) => Promise<{ outdir: string; packages: string[] }>;
};
const { billOfMaterials, imageConfig, packLayer } = (await import(
  pathToFileURL(join(ROOT, 'tools/release/images.mjs')).href
)) as {
  billOfMaterials: (app: string, packages: string[]) => { components: { type: string; name: string }[] };
  imageConfig: (app: string) => { user: string; entrypoint: string[]; environment: Record<string, string> };
  packLayer: (folder: string, archive: string) => { digest: string; files: { path: string }[] };
};

/** `ENV` of the Dockerfile, with free ports on loopback instead of the image's. */
function imageEnvironment(app: string, folder: string): Record<string, string> {
  const { environment } = imageConfig(app);
  const pairs = Object.entries(environment).map(([key, value]) => [key, value.replace('/app', folder)]);
  const loopback = { ADMIN_HOST: '127.0.0.1', ADMIN_PORT: '0', GATEWAY_HOST: '127.0.0.1', GATEWAY_PORT: '0' };
  return { ...Object.fromEntries(pairs), ...loopback };
}

/** The temporary folder, or one that every user can enter where that is private (below a folder of mode 0700, say). */
function sharedTmpdir(): string {
  const path = realpathSync(tmpdir());
  const parents = path.split('/').map((_, index, parts) => parts.slice(0, index + 1).join('/') || '/');
  return parents.every((folder) => (statSync(folder).mode & 0o001) !== 0) ? path : '/tmp';
}

describe('bundles as images run them', () => {
  const base = mkdtempSync(join(sharedTmpdir(), 'toolfleet-images-'));
  // As an image, it brings its Node: another user may not enter the folders above the clone.
  const node = join(base, 'node');
  const data = join(base, 'data');
  let nats: NatsServer;
  let redis: RedisServer;

  beforeAll(async () => {
    chmodSync(base, 0o755);
    copyFileSync(process.execPath, node);
    chmodSync(node, 0o755);
    mkdirSync(data);
    if (isRoot) chownSync(data, UID, UID);
    [nats, redis] = await Promise.all([startNats(), startRedis()]);
  });
  afterAll(async () => {
    await Promise.all([nats.stop(), redis.stop()]);
    for (const folder of readdirSync(base)) makeWritable(join(base, folder));
    rmSync(base, { recursive: true, force: true });
  });

  /** What a release prepares without an engine: a layer that is the same each time, a plan by the Dockerfile, the packages. */
  function expectImageOf(app: string, folder: string, packages: string[]): void {
    if (app === 'registry') {
      const archive = join(base, 'layer.tar.gz');
      const { digest, files } = packLayer(folder, archive);
      expect(packLayer(folder, archive).digest).toBe(digest);
      rmSync(archive);
      expect(files.map(({ path }) => path).toSorted()).toEqual([
        '/app/main.js',
        '/app/openapi-child.js',
        '/app/package.json',
      ]);
    }
    expect(imageConfig(app)).toMatchObject({ user: '10001:10001', entrypoint: ['node', 'main.js'] });
    const { components } = billOfMaterials(app, packages);
    expect(components.find(({ name }) => name === '@opentelemetry/api')).toMatchObject({
      purl: expect.stringMatching(/^pkg:npm\/%40opentelemetry\/api@\d/),
      hashes: [{ alg: 'SHA-512' }],
    });
    expect(components.at(-1)).toMatchObject({ type: 'container', name: 'node', version: '24-slim' });
    // Native code is there for each platform of the images, or for none.
    const native = listing(folder).filter((path) => path.endsWith('.node'));
    const names = native.map((path) => path.split('/').at(-1));
    expect(names).toEqual(native.length === 0 ? [] : ['linux-arm64.node', 'linux-x64.node']);
    expect(native.length).toBe(['budget', 'identity', 'records'].includes(app) ? 2 : 0);
  }

  const settings = {
    gateway: () => ({ GATEWAY_TOKEN_SECRET: secret('token'), API_KEY_PEPPER: secret('pepper') }),
    registry: () => ({}),
    'mcp-executor': () => ({}),
    'openapi-executor': () => ({}),
    'builtin-executor': () => ({ BUILTIN_TOOLSETS: 'compute' }),
    'python-sandbox': () => ({ PYTHON_SANDBOX_THREADS: '1', PYTHON_SANDBOX_WARM_UP_MS: '0' }),
    budget: () => ({ DATABASE_DIR: data }),
    records: () => ({ DATABASE_DIR: data }),
    identity: () => ({
      DATABASE_DIR: data,
      IDENTITY_SECRET_KEYS: `k1:${secret('identity')}`,
      GATEWAY_TOKEN_SECRET: secret('token'),
    }),
  } satisfies Record<ServiceName, () => Record<string, string>>;

  it.each(Object.keys(settings) as ServiceName[])(
    '%s starts, is healthy, drains and leaves its folder alone',
    async (app) => {
      const folder = join(base, app);
      const { packages } = await bundle(app, folder);
      expectImageOf(app, folder, packages);
      const before = listing(folder);
      makeReadOnly(folder);
      const service = startServiceProcess({
        node,
        entry: join(folder, 'main.js'),
        cwd: folder,
        ...(isRoot ? { uid: UID } : {}),
        env: {
          ...imageEnvironment(app, folder),
          NATS_URL: nats.url,
          REDIS_URL: redis.url,
          HOME: folder,
          ...settings[app](),
        },
      });
      try {
        await service.ready();
        for (const path of ['/health/startup', '/health/ready', '/health/live']) {
          expect({ path, status: (await service.admin(path)).status }).toEqual({ path, status: 200 });
        }
        expect((await service.admin('/metrics')).body).toContain('toolfleet_build_info');
        if (app === 'gateway') {
          const page = await fetch(`http://127.0.0.1:${String(service.facts['port'])}/console`);
          expect([page.status, await page.text()]).toEqual([200, expect.stringContaining('toolfleet console')]);
        }
        expect(await service.terminate()).toBe(0);
      } finally {
        await service.kill();
      }
      expect(listing(folder)).toEqual(before);
    },
  );

  it('hold the programs that services start', async () => {
    const child = fork(join(base, 'builtin-executor/bounded-child.js'), [], {
      env: {},
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    const message = await new Promise((resolve, reject) => {
      child.once('message', resolve);
      child.once('exit', (code) => reject(new Error(`ended with ${code}`)));
    });
    child.kill('SIGKILL');
    expect(message).toMatchObject({ ready: true });

    const guard = join(base, 'mcp-executor/stdio-guard.js');
    // Its standard input stays open: its end tells the guard to end the program, however long that takes to start.
    const guarded = spawn(process.execPath, [guard, '64', process.execPath, '-p', '6 * 7'], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const [output, [code]] = await Promise.all([text(guarded.stdout), once(guarded, 'exit')]);
    expect([output.trim(), code]).toEqual(['42', 0]);
  });
});

function listing(folder: string): string[] {
  return readdirSync(folder, { recursive: true }).map(String).toSorted();
}

function makeReadOnly(folder: string): void {
  for (const name of listing(folder)) {
    const path = join(folder, name);
    chmodSync(path, statSync(path).isDirectory() ? 0o555 : 0o444);
  }
  chmodSync(folder, 0o555);
}

function makeWritable(folder: string): void {
  if (!existsSync(folder) || !statSync(folder).isDirectory()) return;
  chmodSync(folder, 0o755);
  for (const name of readdirSync(folder)) makeWritable(join(folder, name));
}
