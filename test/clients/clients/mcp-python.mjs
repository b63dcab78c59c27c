/** The MCP SDK for Python, as `mcp-python.py` uses it, with the Python of TEST_PYTHON. */
import { fileURLToPath } from 'node:url';
import { PYTHON } from '../recipes.mjs';
import { runShell } from '../run-shell.mjs';

/** The pictures in a result as a program gets it. */
export const picturesIn = ({ content }) => content.filter(({ type }) => type === 'image').map(({ data }) => data);
const PROGRAM = fileURLToPath(new URL('mcp-python.py', import.meta.url));

export async function recipe({ url, key, name, args, signal, onProgress, onTools }) {
  const GIVEN = JSON.stringify([url, key, name, args]);
  const output = await runShell(`exec ${PYTHON} ${PROGRAM}`, { GIVEN }, signal).catch(({ message }) => {
    // The error that a developer reads is the last line of its traceback.
    throw new Error(`${/.*\b(\w+Error: .*)/s.exec(message)?.[1].split('\n')[0]}\n${message}`);
  });
  const lines = output.trim().split('\n');
  const { tools, shown } = JSON.parse(lines.pop());
  for (const line of lines) onProgress(JSON.parse(line));
  onTools(tools);
  return shown;
}
