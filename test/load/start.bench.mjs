/**
 * Time of each bundle from start to ready, its memory then, and the size of its image by layer on paper
 * (above the base image). `python-sandbox` is started as deployed: with the warm-up of its interpreter.
 */
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startNats, startRedis, startServiceProcess } from '../../libs/testing/dist/index.js';
import { APPS, bundle } from '../../tools/bundle.mjs';
import { processTree, rssMiB } from './measure.mjs';

const STARTS = 3;
const secret = (name) => `${name}-of-the-start-bench-`.repeat(3);
const SETTINGS = {
  gateway: {
    API_KEY_PEPPER: secret('pepper'),
    GATEWAY_TOKEN_SECRET: secret('token'),
    GATEWAY_PORT: '0',
    POLICY_DIR: 'policies', // where the bundle keeps them, as deploy/app.Dockerfile says
  },
  'builtin-executor': { BUILTIN_TOOLSETS: 'compute' },
  'python-sandbox': { PYTHON_SANDBOX_THREADS: '2' },
};

export async function startBench() {
  const base = mkdtempSync(join(tmpdir(), 'toolfleet-start-'));
  const [nats, redis] = await Promise.all([startNats(), startRedis()]);
  const services = {};
  try {
    for (const app of APPS.filter((name) => name !== 'samples')) {
      const folder = join(base, app);
      await bundle(app, folder);
      const env = {
        NATS_URL: nats.url,
        REDIS_URL: redis.url,
        ADMIN_PORT: '0',
        ADMIN_HOST: '127.0.0.1',
        DATABASE_DIR: base,
        ...SETTINGS[app],
      };
      const starts = [];
      for (let start = 0; start < STARTS; start += 1) starts.push(await startOnce(folder, env));
      const middle = (pick) => starts.map(pick).toSorted((a, b) => a - b)[Math.floor(STARTS / 2)];
      services[app] = {
        start_seconds: Number((middle(({ readyMs }) => readyMs) / 1_000).toFixed(2)),
        rss_mib: middle(({ rss }) => rss),
        layer_mb: layers(folder),
      };
    }
    return { name: 'start', services };
  } finally {
    await Promise.all([nats.stop(), redis.stop()]);
    rmSync(base, { recursive: true, force: true });
  }
}

async function startOnce(folder, env) {
  const from = performance.now();
  const service = startServiceProcess({ entry: join(folder, 'main.js'), cwd: folder, env, readyTimeoutMs: 120_000 });
  await service.ready();
  const readyMs = performance.now() - from;
  const rss = processTree(service.pid).reduce((sum, pid) => sum + rssMiB(pid), 0);
  await service.terminate();
  return { readyMs, rss };
}

/** Megabytes of our own code and of the packages copied with it; source maps are not in an image's way. */
function layers(folder) {
  const sizes = { code: 0, packages: 0, files: 0 };
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name).slice(folder.length + 1);
    const kind = path.includes('node_modules/') ? 'packages' : /\.(js|map)$/.test(path) ? 'code' : 'files';
    sizes[kind] += statSync(join(folder, path)).size / 1e6;
  }
  return Object.fromEntries(Object.entries(sizes).map(([kind, size]) => [kind, Number(size.toFixed(1))]));
}
