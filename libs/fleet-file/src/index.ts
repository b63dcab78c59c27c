export {
  formatDeclaration,
  parseDeclaration,
  type DeclaredBudget,
  type DeclaredSource,
  type FleetFiles,
} from './declaration.js';
export {
  findToolsetFaults,
  isFunctionEntry,
  readMcpEntry,
  readOpenApiEntry,
  type McpEntry,
  type OpenApiEntry,
} from './entries.js';
export { faultLine, type Fault } from './faults.js';
export type { InterceptorSettings } from './interceptors.js';
export {
  FleetFileError,
  NO_FLEET_FILE,
  parseFleetFiles,
  readText,
  type FileText,
  type FleetFile,
  type LimitSettings,
  type PackageSettings,
  type SettingsByPattern,
} from './read-fleet-file.js';
export { hasVariable, hideSecrets, isSecretHeader, KEPT, SECRET_FIELDS } from './secrets.js';
export { SECTION_DOCS } from './schema.js';
export type { SignInSettings } from './sign-in.js';
