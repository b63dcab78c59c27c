export { Sandbox } from './sandbox.js';
export { SCRIPTS } from './scripts.js';
export type { HostSettings } from './sandbox-process.js';
export {
  BARE_RUN,
  type ProgramRun,
  type RunFile,
  type RunReply,
  type RunRequest,
  type RunStatus,
} from './python/guest-protocol.js';
export { isStrictness, type Strictness } from './python/strictness.js';
export { isPure, PackageError, readPackage, wheelTags, type PythonPackage } from './packages/python-package.js';
export { packageCheck } from './packages/package-programs.js';
export { buildTree, type FileContent } from './wasi/file-tree.js';
export { namedInterpreter } from './wasi/interpreter.js';
