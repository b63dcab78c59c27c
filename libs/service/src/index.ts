export { AllowedEndpoints } from './allowed-endpoints.js';
export {
  defineConfig,
  EGRESS_KEYS,
  drainFaults,
  drainTimeout,
  egressFaults,
  hostList,
  NATS_KEYS,
  DATABASE_KEYS,
  EGRESS_ALLOWED_ENDPOINTS,
  EXECUTOR_CONCURRENCY,
  REGISTRY_SECRET_KEY,
  MCP_MAX_RESPONSE_BYTES,
  S3_KEYS,
  s3Faults,
  s3Login,
  TENANT_QUOTAS,
  REDIS_KEYS,
  SHARED_KEYS,
  type ConfigFault,
  type ConfigTable,
  type ServiceConfig,
  type SettingsOf,
} from './config/define-config.js';
export { VariableExpander } from './config/expand-variables.js';
export {
  boolean,
  durationMs,
  integer,
  list,
  number,
  oneOf,
  path,
  secret,
  text,
  url,
  type Field,
} from './config/field.js';
export { environmentByPrefix, foreignEnvironment, loadConfig, processEnvironment } from './config/load-config.js';
export { documentConfig } from './config/print-config.js';
export { FLEET_FILE_FAULT, FLEET_FILE_KEYS, fleetFileReloader, loadFleetFile } from './fleet-file.js';
export { checkReady, FatalStartupError, type LifecycleComponent, type ServiceHost } from './lifecycle.js';
export { KeyRing, keyRingFaults } from './secrets/key-ring.js';
export { openBytes, sealBytes } from './secrets/sealed-bytes.js';
export { holdsSealed, isSealed, MIN_SECRET_KEY_LENGTH, secretContext, SecretBox } from './secrets/secret-box.js';
export { secretOpener, type OpenSecret } from './secrets/secret-opener.js';
export { ServiceFaults } from './service-faults.js';
export { defineService, startService, VERSION, type Service } from './start-service.js';
