import { DEFAULT_SETTINGS } from '@toolfleet/engine';
import { loadConfig } from '@toolfleet/service';
import { expect, test } from 'vitest';
import { engineSettings, toolBreakerRule } from './engine-settings.js';
import { gatewayConfig } from '../gateway.config.js';

const REQUIRED = { GATEWAY_TOKEN_SECRET: 's'.repeat(32), API_KEY_PEPPER: 'p'.repeat(16) };
const read = (env: Record<string, string> = {}) => loadConfig(gatewayConfig, { ...REQUIRED, ...env }).settings;

test('uses the documented defaults when nothing is configured', () => {
  expect(engineSettings(read())).toEqual(DEFAULT_SETTINGS);
  expect(toolBreakerRule(read())).toEqual({
    errorRate: { threshold: 0.5, windowMs: 30_000, minCalls: 20 },
    recoveryMs: 30_000,
  });
});

test.each([
  [{ GATEWAY_MAX_CALLS: '7' }, { maxConcurrentCalls: 7 }],
  [{ MCP_TIMEOUT_SECONDS: '5' }, { mcpTimeoutMs: 5_000 }],
  [{ MCP_MAX_RESPONSE_BYTES: '2048' }, { mcpResponseBytes: 2_048 }],
  [{ MCP_RETRIES: '1' }, { attempts: { mcp: 1, openapi: 3 } }],
  [{ OPENAPI_RETRIES: '5' }, { attempts: { mcp: 3, openapi: 5 } }],
  [{ WASI_TIMEOUT_SECONDS: '9' }, { pythonMaxTimeoutMs: 9_000 }],
  [{ GRACEFUL_ERROR_AS_SUCCESS: 'true' }, { gracefulErrorAsSuccess: true }],
])('%j becomes %j', (env, settings) => expect(engineSettings(read(env))).toMatchObject(settings));

test('needs the settings of the chosen store', () => {
  const faults = (settings: Record<string, unknown>) =>
    gatewayConfig.check?.({ ...settings } as never).map(({ key }) => key);
  expect(faults({ RESULT_STORE: 'directory' })).toContain('RESULT_STORE_DIR');
  expect(faults({ RESULT_STORE: 's3', S3_BUCKET: 'b' })).toEqual([
    'S3_ENDPOINT',
    'S3_ACCESS_KEY_ID',
    'S3_SECRET_ACCESS_KEY',
  ]);
});
