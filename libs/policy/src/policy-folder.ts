import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { PolicyFile } from './rego-policy.js';

/** All `*.rego` files of a folder and its `data.json`, in the order of their names. @throws Error when there is no rule file */
export async function readPolicyFolder(folder: string): Promise<PolicyFile[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.rego') || name === 'data.json').toSorted();
  if (!names.some((name) => name.endsWith('.rego'))) throw new Error(`no *.rego file in ${folder}`);
  return Promise.all(names.map(async (name) => ({ name, text: await readFile(join(folder, name), 'utf8') })));
}
