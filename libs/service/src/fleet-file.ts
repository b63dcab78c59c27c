import { statSync } from 'node:fs';
import { join } from 'node:path';
import type { JsonObject } from '@toolfleet/contracts';
import { path } from './config/field.js';
import type { ConfigTable, SettingsOf } from './config/define-config.js';
import { readFleetFile } from './read-fleet-file.js';

/** Keys that name the one configuration file; spread into the table of a service that reads it. */
export const FLEET_FILE_KEYS = {
  TOOLFLEET_CONFIG: path({ optional: true, help: 'The configuration file of the fleet (YAML)' }),
  SHANNON_CONFIG_PATH: path({ optional: true, help: 'Older name of TOOLFLEET_CONFIG' }),
  CONFIG_PATH: path({ optional: true, help: 'Older name of TOOLFLEET_CONFIG; a directory means its shannon.yaml' }),
} satisfies ConfigTable;

/** Path of the configuration file, or undefined when none is named. */
export function fleetFilePath(settings: SettingsOf<typeof FLEET_FILE_KEYS>): string | undefined {
  const named = settings.TOOLFLEET_CONFIG ?? settings.SHANNON_CONFIG_PATH ?? settings.CONFIG_PATH;
  if (named === undefined) return undefined;
  return statSync(named, { throwIfNoEntry: false })?.isDirectory() ? join(named, 'shannon.yaml') : named;
}

/** The configuration file named by the settings; an empty configuration when none is named. */
export function fleetFileOf(settings: SettingsOf<typeof FLEET_FILE_KEYS>): JsonObject {
  const file = fleetFilePath(settings);
  return file === undefined ? {} : readFleetFile(file);
}
