import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { secretOpener, VariableExpander } from '@toolfleet/service';
import type { ExecutorDefinition } from '@toolfleet/service/executor';
import { Credentials } from './credentials.js';
import { OAuthTokens } from './oauth-tokens.js';
import { OpenApiExecutor } from './openapi-executor.js';
import { openapiExecutorConfig } from './openapi-executor.config.js';
import { logRequest } from './send-request.js';
import { VendorAdapters } from './vendor-adapters/find-adapter.js';

/** The breaker of an origin, as the defaults of MCP servers. */
const BREAKER = { consecutiveFailures: 5, recoveryMs: 60_000 };

/** The executor of OpenAPI operations: one breaker per origin. */
export const openApiExecutor: ExecutorDefinition<(typeof openapiExecutorConfig)['table']> = {
  config: openapiExecutorConfig,
  concurrency: (settings) => settings.EXECUTOR_CONCURRENCY,
  build(settings, deps) {
    const { clock, logger, metrics } = deps.host;
    const egress = deps.egress({ allowlist: 'OPENAPI_ALLOWED_DOMAINS' });
    const breakers = deps.shareBreakers(BREAKER);
    const openSecret = secretOpener({
      kind: 'openapi',
      expander: new VariableExpander(openapiExecutorConfig.ownKeys),
      secretKey: settings.REGISTRY_SECRET_KEY,
    });
    const executor = new OpenApiExecutor(
      {
        egress,
        credentials: new Credentials(openSecret, new OAuthTokens(egress, clock)),
        users: deps.users,
        clock,
        onRequest: settings.OPENAPI_LOG_REQUESTS ? logRequest(logger) : undefined,
      },
      breakers,
      new VendorAdapters(deps.host, settings.OPENAPI_ADAPTERS_DIR),
      (baseUrl) => metrics.breakerFailures.inc({ base_url: baseUrl }),
    );
    return {
      subjects: [SUBJECTS.execOpenapi],
      execute: (message, { timeLeftMs, signal }, begin) =>
        executor.execute(message, { remainingMs: timeLeftMs, signal, begin }),
    };
  },
};
