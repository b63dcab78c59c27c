export { Sandbox } from './sandbox.js';
export { SCRIPTS } from './scripts.js';
export type { HostSettings } from './sandbox-process.js';
export type { ProgramRun, RunFile, RunReply, RunRequest, RunStatus } from './python/guest-protocol.js';
export { isStrictness, type Strictness } from './python/strictness.js';
export { isPure, PackageError, readPackage, wheelTags, type PythonPackage } from './packages/python-package.js';
export { packageCheck } from './packages/package-programs.js';
export { buildTree, type FileContent } from './wasi/file-tree.js';
export { namedInterpreter } from './wasi/interpreter.js';
