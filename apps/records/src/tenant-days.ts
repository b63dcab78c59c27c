/** Reads `acme=90`: a tenant and the days for which its calls are kept. @throws Error that names the fault */
export function readTenantDays(item: string): { tenantId: string; days: number } {
  const [, tenantId, text] = /^(.+)=(\d{1,5})$/.exec(item) ?? [];
  const days = Number(text);
  if (tenantId === undefined || days < 1 || days > 36_500)
    throw new Error(`"${item}" is not <tenant>=<days from 1 to 36500>`);
  return { tenantId, days };
}
