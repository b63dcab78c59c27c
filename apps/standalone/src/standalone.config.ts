import { defineConfig, list } from '@toolfleet/service';

/** All services, in the order they start: those that others ask come first. */
export const SERVICES = [
  'budget',
  'registry',
  'records',
  'identity',
  'builtin-executor',
  'mcp-executor',
  'openapi-executor',
  'python-sandbox',
  'gateway',
] as const;
export type ServiceName = (typeof SERVICES)[number];

/** The environment variables of the process `standalone`, besides its services'. */
export const standaloneConfig = defineConfig('standalone', {
  TOOLFLEET_SERVICES: list({
    default: SERVICES,
    of: SERVICES,
    help: 'Services of this process, each with its own variables as if it ran alone',
  }),
});
