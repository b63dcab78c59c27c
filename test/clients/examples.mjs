/** Runs the agents of `examples/` that use packages of this folder, with the scripted model of the samples. */
import { cpSync, existsSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const FOLDER = fileURLToPath(new URL('.', import.meta.url));
const EXAMPLES = fileURLToPath(new URL('../../examples', import.meta.url));
const RUN_WITHIN_MS = 120_000;
const SCRIPT = 'CALL calculator {"expression": "6 * 7"}\nSAY It is {results}.';

/**
 * The agent of `examples/<name>`, if there is one, asked for a product.
 * @param {string} name
 * @param {{url: string, api_key: string}} fleet
 * @param {string} modelUrl base URL of the scripted model
 * @returns {Promise<{outcome: string, evidence: string} | undefined>}
 */
export async function runExample(name, fleet, modelUrl) {
  const agent = join(EXAMPLES, name, 'agent.mjs');
  if (!existsSync(agent)) return undefined;
  const folder = mkdtempSync(join(tmpdir(), 'toolfleet-example-'));
  try {
    cpSync(agent, join(folder, 'agent.mjs'));
    symlinkSync(join(FOLDER, 'node_modules'), join(folder, 'node_modules'));
    const { PATH, HOME } = process.env;
    const env = {
      ...{ PATH, HOME, TOOLFLEET_URL: fleet.url, TOOLFLEET_API_KEY: fleet.api_key },
      ...{ OPENAI_BASE_URL: modelUrl, OPENAI_API_KEY: 'none', OPENAI_MODEL: 'scripted' },
    };
    const options = { cwd: folder, env, timeout: RUN_WITHIN_MS, killSignal: 'SIGKILL' };
    const { stdout } = await promisify(execFile)(process.execPath, ['agent.mjs', SCRIPT], options);
    const isAnswered = /^It is .*42.*\.$/s.test(stdout.trim());
    return { outcome: isAnswered ? 'passed' : 'failed', evidence: `it answers ${JSON.stringify(stdout.trim())}` };
  } catch (error) {
    return { outcome: 'failed', evidence: `${error.message} ${error.stderr ?? ''}`.trim() };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
