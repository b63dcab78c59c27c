import { defineService, startService, type Service } from '@toolfleet/service';
import { SERVICES, standaloneConfig, type ServiceName } from './standalone.config.js';

const LOAD: Record<ServiceName, () => Promise<{ default: Service }>> = {
  budget: () => import('@toolfleet/budget/service'),
  records: () => import('@toolfleet/records-service/service'),
  identity: () => import('@toolfleet/identity/service'),
  registry: () => import('@toolfleet/registry/service'),
  'builtin-executor': () => import('@toolfleet/builtin-executor/service'),
  'mcp-executor': () => import('@toolfleet/mcp-executor/service'),
  'openapi-executor': () => import('@toolfleet/openapi-executor/service'),
  'python-sandbox': () => import('@toolfleet/python-sandbox/service'),
  gateway: () => import('@toolfleet/gateway/service'),
};

// The process has no part of its own: its configuration names the services; they have all the rest.
await startService(
  defineService(standaloneConfig, () => []),
  async ({ TOOLFLEET_SERVICES: chosen }) =>
    Promise.all(SERVICES.filter((name) => chosen.includes(name)).map(async (name) => (await LOAD[name]()).default)),
);
