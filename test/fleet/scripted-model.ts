/** The scripted model of the samples as a separate process; its scripts: tools/samples/src/model-server.ts. */
import type { ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { spawnChild } from '@toolfleet/testing';

const PROGRAM = fileURLToPath(new URL('../../tools/samples/src/model-server.ts', import.meta.url));

/** Starts it on a free port; `baseUrl` is what LLM_BASE_URL wants. End it with `endChild`. */
export async function startScriptedModel(): Promise<{ process: ChildProcess; baseUrl: string }> {
  const child = spawnChild(process.execPath, ['--disable-warning=ExperimentalWarning', PROGRAM, '0']);
  const port = await new Promise<string>((resolve, reject) => {
    child.stdout?.on('data', (data: Buffer) => {
      const found = /port (\d+)/.exec(data.toString())?.[1];
      if (found) resolve(found);
    });
    child.once('exit', (code) => reject(new Error(`the scripted model ended with ${code}`)));
  });
  return { process: child, baseUrl: `http://127.0.0.1:${port}/v1` };
}
