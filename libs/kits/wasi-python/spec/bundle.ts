/**
 * Bundles the scripts of the child process and its threads, so that specs run them from source. Each call creates a folder,
 * which the caller removes.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { inlineText } from '../../../../tools/inline-text.mjs';

const source = (path: string) => fileURLToPath(new URL(`../src/${path}`, import.meta.url));

export interface SandboxScripts {
  hostScript: string;
  threadScript: string;
  remove: () => void;
}

export async function bundleSandbox(): Promise<SandboxScripts> {
  const folder = mkdtempSync(join(tmpdir(), 'toolfleet-sandbox-'));
  await build({
    entryPoints: [source('sandbox-host.ts'), source('wasi/sandbox-thread.ts')],
    outdir: folder,
    outbase: source(''),
    outExtension: { '.js': '.mjs' },
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node24',
    conditions: ['@toolfleet/source'],
    logLevel: 'error',
    plugins: [inlineText()],
  });
  return {
    hostScript: join(folder, 'sandbox-host.mjs'),
    threadScript: join(folder, 'wasi/sandbox-thread.mjs'),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}
