/**
 * Spec files that take longer than about 25 s on two cores, the longest first, as paths in the repository. They begin first, so that none
 * of them runs alone at the end of `npm test` while the other workers have nothing left. `npm test` prints the slowest files: put a new
 * one in its place.
 */
export const LONG_SPECS = [
  'test/failure/fleet-effects.spec.ts',
  'test/e2e/npm-start.spec.ts',
  'test/e2e/tutorials.spec.ts',
  'test/observability/outages.spec.ts',
  'test/e2e/recorded-data.spec.ts',
  'test/abuse/programs.spec.ts',
  'test/failure/python-sandbox.spec.ts',
  'test/failure/fleet-replicas.spec.ts',
  'test/e2e/programs.spec.ts',
  'test/e2e/images.spec.ts',
  'test/configuration-mistakes.spec.ts',
  'test/e2e/deployed-permissions.spec.ts',
  'test/abuse/costly-work.spec.ts',
  'test/observability/live-metrics.spec.ts',
  'apps/registry/src/registry.service.spec.ts',
  'test/e2e/user-credentials.spec.ts',
  'test/e2e/secrets-canary.spec.ts',
  'test/e2e/mcp-endpoint.spec.ts',
  'test/e2e/tool-lists.spec.ts',
  'test/e2e/operator-views.spec.ts',
  'test/e2e/usage-ledger.spec.ts',
  'test/e2e/batches.spec.ts',
  'test/e2e/packages.spec.ts',
  'test/e2e/tool-settings.spec.ts',
  'test/e2e/limits.spec.ts',
  'apps/python-sandbox/src/sandbox.spec.ts',
  'libs/queue/src/queue.spec.ts',
  'libs/builtin-tools/src/web/web.spec.ts',
  'libs/queue/src/failure.spec.ts',
  'libs/results/src/select-pool.spec.ts',
];
