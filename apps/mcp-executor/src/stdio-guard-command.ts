import { fileURLToPath } from 'node:url';
import { getDefaultEnvironment, type StdioServerParameters } from '@modelcontextprotocol/client/stdio';
import type { StdioOptions } from './mcp-target.js';

/** Beside this file, in source and in the build alike. */
const GUARD = fileURLToPath(new URL(`./stdio-guard.${import.meta.url.endsWith('.ts') ? 'ts' : 'js'}`, import.meta.url));

/**
 * The command line of a local server, run under our guard process: it ends the server's whole process group when this
 * process ends in any way, and when the server uses too much memory. The server sees only the variables it was given.
 */
export function guardedCommand(options: StdioOptions, expand: (value: string) => string): StdioServerParameters {
  const env = Object.fromEntries(Object.entries(options.env).map(([name, value]) => [name, expand(value)]));
  return {
    command: process.execPath,
    args: [GUARD, String(options.memoryLimitMb), options.command, ...options.args.map(expand)],
    env: { ...getDefaultEnvironment(), ...env },
    stderr: 'ignore',
    ...(options.cwd ? { cwd: options.cwd } : {}),
  };
}
