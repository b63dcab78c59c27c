/** Values of ENVIRONMENT in which keys that weaken a guard are taken. */
const DEVELOPMENT: readonly string[] = ['development', 'dev', 'test'];

/** True where a key that weakens a guard may be set; an unknown name counts as production. */
export function isDevelopment(environment: string): boolean {
  return DEVELOPMENT.includes(environment);
}
