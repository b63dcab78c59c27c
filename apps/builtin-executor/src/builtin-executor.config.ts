import { TOOLSETS } from '@toolfleet/contracts';
import { defineConfig, durationMs, integer, list, NATS_KEYS, type SettingsOf } from '@toolfleet/service';

/** Everything builtin-executor can be told. */
export const builtinExecutorConfig = defineConfig(
  'builtin-executor',
  {
    ...NATS_KEYS,
    BUILTIN_TOOLSETS: list({ default: [...TOOLSETS], of: TOOLSETS, help: 'Toolsets this process serves' }),
    BUILTIN_CONCURRENCY: integer({
      default: 256,
      min: 1,
      max: 10_000,
      help: 'Calls in work at once; more are refused as QUEUE_FULL',
    }),
    BUILTIN_ANNOUNCE_TTL_MS: durationMs({
      default: 30_000,
      min: 1_000,
      max: 3_600_000,
      help: 'Age at which announced tools count as unavailable; they are announced three times as often',
    }),
    BUILTIN_COSTS_MICRO_USD: list({
      default: [],
      help: 'Price of a call in micro-USD by tool, e.g. "calculator=1,web_search=4000"',
    }),
    CALCULATOR_RATE_LIMIT: integer({
      default: 2_000,
      min: 0,
      help: 'Calls of calculator per minute and tenant; 0 means none',
    }),
    WEB_SEARCH_RATE_LIMIT: integer({
      default: 120,
      min: 0,
      help: 'Calls of web_search per minute and tenant; 0 means none',
    }),
  },
  {
    check: (settings) =>
      settings.BUILTIN_COSTS_MICRO_USD.filter((item) => !/^[A-Za-z0-9_-]{1,64}=\d{1,12}$/.test(item)).map((item) => ({
        key: 'BUILTIN_COSTS_MICRO_USD',
        message: `"${item}" is not tool=micro-USD`,
      })),
  },
);
export type BuiltinExecutorConfig = SettingsOf<(typeof builtinExecutorConfig)['table']>;
