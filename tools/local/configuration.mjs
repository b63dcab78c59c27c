/** The configuration of the local fleet: `.env`, the file that belongs to the user, and the sources of the samples. */
import { copyFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseEnv } from 'node:util';
import { clientVariables } from './shell-file.mjs';

/** Exit code of an invalid configuration (`EX_CONFIG` of sysexits.h). */
const EX_CONFIG = 78;

/**
 * Reads `.env` of a folder into the environment; variables that are set already win. A name that is close to a setting, and is neither a
 * setting nor a variable for clients, is reported. Empty variables are removed: services take them for unset, too.
 * @param {string} root folder of the repository
 */
export async function readDotEnv(folder, root, say, environment = process.env) {
  const unset = () => {
    for (const name of Object.keys(environment)) if (environment[name] === '') delete environment[name];
  };
  unset();
  const file = join(folder, '.env');
  if (!existsSync(file)) return;
  const { suggestion } = await import('../../libs/contracts/dist/text.js');
  const page = readFileSync(join(root, 'docs/configuration.md'), 'utf8');
  const forClients = Object.keys(clientVariables({}));
  const settings = [...page.matchAll(/^\| `([A-Z][A-Z0-9_]*)`/gm)].flatMap(([, key]) => [key, `${key}_FILE`]);
  for (const [name, value] of Object.entries(parseEnv(readFileSync(file, 'utf8')))) {
    environment[name] ??= value;
    const meant = [...settings, ...forClients].includes(name) ? '' : suggestion(name, settings);
    if (meant) say(`${file}: ${name} is not a setting${meant}`);
  }
  unset();
}

/**
 * The files for `TOOLFLEET_CONFIG`: those that the environment names, else the generated sources of the samples and the user's file,
 * which is made once.
 * @param {Record<string, string>} samples URLs of the samples by placeholder
 */
export function configurationFiles({ root, stateDir, samples }) {
  const named = process.env.TOOLFLEET_CONFIG;
  if (named) return named.split(',').map((file) => resolve(file.trim()));
  const [generated, own] = [join(stateDir, 'samples.yaml'), join(stateDir, 'fleet.yaml')];
  const sources = readFileSync(join(root, 'tools/samples/sources.yaml'), 'utf8');
  writeFileSync(
    generated,
    Object.entries(samples).reduce((text, [key, url]) => text.replaceAll(`\${${key}}`, url), sources),
  );
  if (!existsSync(own)) copyFileSync(join(root, 'deploy/config/fleet.yaml'), own);
  return [generated, own];
}

/**
 * Checks the files as the services will, so that common faults are printed once.
 * @throws Error with exit code 78
 */
export async function checkConfiguration(files) {
  const { faultLine, FleetFileError, parseFleetFiles, readText } = await import('../../libs/fleet-file/dist/index.js');
  try {
    parseFleetFiles(files.map(readText));
  } catch (error) {
    if (!(error instanceof FleetFileError)) throw error;
    const lines = error.faults.map((fault) => `  ${faultLine(fault)}`);
    const message = `the configuration is invalid (${error.file}):\n${lines.join('\n')}`;
    throw Object.assign(new Error(message), { exitCode: EX_CONFIG });
  }
}

/** Prints the faults of configuration that services announce; one that several report is printed once. */
export class FaultPrinter {
  #byService = new Map();
  #say;

  constructor(say) {
    this.#say = say;
  }

  /** Present faults of sources. They come and go with their servers, so they are not printed; `fleetctl sources` shows them. */
  get ofSources() {
    return this.#present().filter(isOfSource);
  }

  /** Receives the last announcement of a service. */
  show(service, faults) {
    if (!Array.isArray(faults)) return;
    const known = this.#lasting();
    const lines = faults.map(({ subject, message }) => `${subject}: ${message}`);
    this.#byService.set(service, lines);
    for (const line of lines) if (!isOfSource(line) && !known.includes(line)) this.#say(line);
    if (known.length > 0 && this.#lasting().length === 0) this.#say('no fault is left');
  }

  #present() {
    return [...this.#byService.values()].flat();
  }

  #lasting() {
    return this.#present().filter((line) => !isOfSource(line));
  }
}

const isOfSource = (line) => line.startsWith('source ');
