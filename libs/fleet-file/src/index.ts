export {
  findToolsetFaults,
  isFunctionEntry,
  readFields,
  readMcpEntry,
  readOpenApiEntry,
  type McpEntry,
  type OpenApiEntry,
} from './entries.js';
export { faultLine, findFaults, memberPath, type Fault } from './faults.js';
export {
  FleetFileError,
  formatYaml,
  NO_FLEET_FILE,
  parseFleetFiles,
  parseYaml,
  readText,
  type FileText,
  type FleetFile,
} from './read-fleet-file.js';
export { hasVariable, hideSecrets, isSecretHeader, KEPT, SECRET_FIELDS } from './secrets.js';
export {
  SECTION_DOCS,
  SECTIONS,
  type InterceptorSettings,
  type LimitSettings,
  type SettingsByPattern,
  type SignInSettings,
} from './schema.js';
