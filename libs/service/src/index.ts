export { AdminServer, type HealthSource } from './admin-server.js';
export {
  defineConfig,
  NATS_KEYS,
  REDIS_KEYS,
  SHARED_KEYS,
  type ConfigFault,
  type ConfigOf,
  type ConfigTable,
  type ServiceConfig,
  type SettingsOf,
  type SharedSettings,
} from './config/define-config.js';
export { EGRESS_KEYS, egressFaults, hostList } from './config/egress-keys.js';
export { isDevelopment } from './config/is-development.js';
export {
  boolean,
  durationMs,
  FieldFault,
  integer,
  list,
  number,
  oneOf,
  path,
  secret,
  text,
  url,
  type Field,
  type FieldKind,
} from './config/field.js';
export {
  ConfigError,
  environmentByPrefix,
  EXIT_CONFIG,
  loadConfig,
  type Environment,
  type LoadedConfig,
} from './config/load-config.js';
export { VariableExpander } from './config/expand-variables.js';
export { describeSettings, documentConfig, helpText, type ConfigKeyDoc } from './config/print-config.js';
export { FLEET_FILE_KEYS, fleetFileOf, fleetFilePath } from './fleet-file.js';
export { microservicePart } from './microservice-part.js';
export { nestLogger, nestPart } from './nest-part.js';
export { readFleetFile } from './read-fleet-file.js';
export {
  holdsSealed,
  isSealed,
  MIN_SECRET_KEY_LENGTH,
  olderSecretContext,
  secretContext,
  SecretBox,
} from './secrets/secret-box.js';
export { FatalStartupError, type ServiceHost, type LifecycleComponent } from './service-part.js';
export { startService, VERSION, type BuildParts } from './start-service.js';
