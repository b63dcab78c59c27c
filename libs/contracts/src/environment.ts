/** Values of ENVIRONMENT that permit settings which weaken a protection. */
const DEVELOPMENT: readonly string[] = ['development', 'dev', 'test'];

/** Whether settings that weaken a protection are permitted; an unknown name counts as production. */
export function isDevelopment(environment: string): boolean {
  return DEVELOPMENT.includes(environment);
}
