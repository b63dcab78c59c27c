/** The inspector's command line, as `inspector.sh` runs it. */
import { readFileSync } from 'node:fs';
import { runShell } from '../run-shell.mjs';

/** The pictures in a result as a program gets it. */
export const picturesIn = ({ content }) => content.filter(({ type }) => type === 'image').map(({ data }) => data);
const [list, call] = readFileSync(new URL('inspector.sh', import.meta.url), 'utf8')
  .trim()
  .split('\n');
/** The list of the first call, kept because each command starts a program for seconds. */
let listed;

export async function recipe({ url, key, name, args, signal, onTools }) {
  const env = { URL: url, TOOLFLEET_API_KEY: key, TOOL: name, ARGUMENTS: JSON.stringify(args) };
  listed ??= JSON.parse(await runShell(list, env, signal)).tools.map((tool) => tool.name);
  onTools(listed);
  // It also prints the result of a failed tool, and exits with 5.
  return JSON.parse(await runShell(call, env, signal).catch((error) => error.output || Promise.reject(error)));
}
