import { statSync } from 'node:fs';
import { join } from 'node:path';
import type { Json } from '@toolfleet/contracts';
import {
  NO_FLEET_FILE,
  parseFleetFiles,
  readText,
  SECTION_DOCS,
  type FleetFile,
  type FileText,
} from '@toolfleet/fleet-file';
import { Rounds } from '@toolfleet/resilience';
import type { ConfigTable, SettingsOf } from './config/define-config.js';
import { list, path } from './config/field.js';
import { oneLine, type LifecycleComponent, type ServiceHost } from './lifecycle.js';

/** Keys that name the configuration files; spread into the table of a service that reads them. */
export const FLEET_FILE_KEYS = {
  TOOLFLEET_CONFIG: list({
    optional: true,
    help: 'The configuration file of the fleet (YAML); several are joined, an entry of a later one replaces one of an earlier one',
  }),
  SHANNON_CONFIG_PATH: path({ optional: true, help: 'Older name of TOOLFLEET_CONFIG' }),
  CONFIG_PATH: path({ optional: true, help: 'Older name of TOOLFLEET_CONFIG; a directory means its shannon.yaml' }),
} satisfies ConfigTable;

type FleetFileSettings = SettingsOf<typeof FLEET_FILE_KEYS>;
const RELOAD_EVERY_MS = 1_000;

/** Subject of the faults of the configuration file. */
export const FLEET_FILE_FAULT = 'configuration file';

/** Paths of the configuration files; empty when none is configured. */
function fleetFilePaths(settings: FleetFileSettings): readonly string[] {
  if (settings.TOOLFLEET_CONFIG !== undefined) return settings.TOOLFLEET_CONFIG;
  const named = settings.SHANNON_CONFIG_PATH ?? settings.CONFIG_PATH;
  if (named === undefined) return [];
  return [statSync(named, { throwIfNoEntry: false })?.isDirectory() ? join(named, 'shannon.yaml') : named];
}

/** The configured files; `NO_FLEET_FILE` when none is configured. @throws FleetFileError; it ends the start with exit code 78 */
export function loadFleetFile(settings: FleetFileSettings): FleetFile {
  const paths = fleetFilePaths(settings);
  return paths.length === 0 ? NO_FLEET_FILE : parseFleetFiles(paths.map(readText));
}

/**
 * Puts the sections into force that apply without a restart. A rejection is a fault, and is tried again.
 * @returns faults of parts that are ignored
 */
type ApplyFleetFile = (file: FleetFile) => Promise<readonly string[]> | void;

/**
 * A component that reads the configuration files again every second and passes changed ones to `apply`. Files that cannot be read
 * or parsed, or have an unknown key, are reported as a fault, and the file in force stays. Changed files must read the same twice
 * in a row, because they may still be being written. Polling follows files that are replaced through symlinks, as Kubernetes does it.
 * A change of a section that the service reads at its start is a fault until the service is restarted or the change undone.
 *
 * @param loaded the content that the service was built from
 */
export function fleetFileReloader(
  settings: FleetFileSettings,
  loaded: FleetFile,
  { service, clock, logger, faults }: Pick<ServiceHost, 'service' | 'clock' | 'logger' | 'faults'>,
  apply: ApplyFleetFile = () => undefined,
): LifecycleComponent {
  const name = FLEET_FILE_FAULT;
  const files = fleetFilePaths(settings);
  if (files.length === 0) return { name };
  const same = (a: readonly FileText[] | undefined, b: readonly FileText[]) => JSON.stringify(a) === JSON.stringify(b);
  /** Texts that were read last, and those in force; undefined once a change was refused. */
  let candidate: FileText[] | undefined;
  let applied: FileText[] | undefined;
  let refusal = '';

  const reload = async (): Promise<void> => {
    try {
      const texts = files.map(readText);
      const isSettled = same(candidate, texts);
      candidate = texts;
      if (!isSettled || same(applied, texts)) return;
      const file = parseFleetFiles(texts);
      const ignored = (await apply(file)) ?? [];
      const changed = atStart(service).filter((section) => text(file[section]) !== text(loaded[section]));
      const restarts = changed.map((section) => `${section} changed; restart the ${service} service to apply it`);
      faults.set(name, [...restarts, ...ignored]);
      applied = texts;
      refusal = '';
      logger.info({ files, needs_restart: changed }, 'the configuration file was read');
    } catch (error) {
      const message = `a change is ignored, the previous content stays in force: ${oneLine(error)}`;
      if (message !== refusal) logger.error({ files }, message);
      refusal = message;
      applied = undefined;
      faults.set(name, [message]);
    }
  };
  return new Rounds({ name, clock, everyMs: RELOAD_EVERY_MS, work: reload });
}

/** Sections that a service reads at its start only. */
function atStart(service: string): (keyof FleetFile)[] {
  const sections = Object.entries(SECTION_DOCS).filter(([, { restart }]) =>
    (restart as readonly string[] | undefined)?.includes(service),
  );
  return sections.map(([section]) => section as keyof FleetFile);
}

const text = (section: FleetFile[keyof FleetFile]): string => JSON.stringify(section as Json);
