import type { ToolCallError } from '@toolfleet/client';
import { useState, type FormEvent } from 'react';
import { useSigned } from '../session.js';
import { Choice, ErrorNotice, Labelled } from '../ui/components.js';
import { CopyButton } from '../ui/copy-button.js';
import { asToolError } from '../use-query.js';

const DAY_SECONDS = 86_400;
const EMPTY = { client: '', tenant: '', user: '', service: '', roles: '', tools: '', tier: '', mode: '', days: '90' };

/** The tools that MCP requests of a key see. */
const MODES = [
  ['', 'as the client asks'],
  ['list', 'every tool'],
  ['search', 'search and call'],
  ['code', 'search, describe, run programs'],
] as const;

/** The shown parts of a new key. */
interface MadeKey {
  client: string;
  token: string;
  warnings: string[];
}

/** Words separated by spaces or commas; undefined when there are none, so that the default applies. */
function splitList(text: string): string[] | undefined {
  const words = text.split(/[\s,]+/).filter(Boolean);
  return words.length > 0 ? words : undefined;
}

/** Creates a key and shows its secret once. */
export function NewKeyForm({ onCreated }: { onCreated: () => void }) {
  const { api, me } = useSigned();
  const [texts, setTexts] = useState(EMPTY);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ToolCallError>();
  const [made, setMade] = useState<MadeKey>();

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      const key = await api.createKey({
        client: texts.client.trim(),
        tenant_id: texts.tenant.trim() || undefined,
        user_id: texts.user.trim() || undefined,
        service_account: texts.service.trim() || undefined,
        roles: splitList(texts.roles),
        tools: splitList(texts.tools),
        tier: texts.tier || undefined,
        mcp_mode: MODES.find(([mode]) => mode === texts.mode)?.[0] || undefined,
        expires_in_seconds: texts.days ? Number(texts.days) * DAY_SECONDS : undefined,
      });
      setMade(key);
      setTexts(EMPTY);
      onCreated();
    } catch (thrown) {
      setError(asToolError(thrown));
    } finally {
      setBusy(false);
    }
  };
  const text = (name: keyof typeof EMPTY, label: string, placeholder = '') => (
    <Labelled label={label}>
      {(id) => (
        <input
          id={id}
          value={texts[name]}
          placeholder={placeholder}
          autoComplete="off"
          spellCheck={false}
          onChange={(event) => setTexts({ ...texts, [name]: event.target.value })}
        />
      )}
    </Labelled>
  );
  return (
    <section className="card stack" aria-labelledby="new-key">
      <h2 id="new-key">New key</h2>
      <form className="stack" onSubmit={(event) => void submit(event)}>
        <div className="cards">
          {text('client', 'Client', 'what will use it')}
          {me.operator && text('tenant', 'Tenant', me.tenant_id)}
          {me.rights.includes('manage_keys') && text('service', 'Service account', 'none: for yourself')}
          {me.rights.includes('mint_for_users') && text('user', 'User', me.operator ? 'as the client' : me.user_id)}
          {text('roles', 'Roles', 'none')}
          {text('tools', 'Tools', '* for all, or names with *')}
          {me.operator && text('tier', 'Rate class', 'free, pro, max, enterprise')}
          <Choice
            label="MCP shows"
            value={texts.mode}
            onChange={(mode) => setTexts({ ...texts, mode })}
            options={MODES}
          />
          <Choice
            label="Lives"
            value={texts.days}
            onChange={(days) => setTexts({ ...texts, days })}
            options={[
              ['30', '30 days'],
              ['90', '90 days'],
              ['365', 'a year'],
              ['', 'until it is revoked'],
            ]}
          />
        </div>
        <div>
          <button className="primary" disabled={busy || texts.client.trim() === ''}>
            Make key
          </button>
        </div>
      </form>
      {error && <ErrorNotice error={error} />}
      {made && <Secret made={made} onClose={() => setMade(undefined)} />}
    </section>
  );
}

function Secret({ made, onClose }: { made: MadeKey; onClose: () => void }) {
  return (
    <div className="notice good" role="status">
      <strong>Key of {made.client}</strong>
      <span>Copy it now: it is shown this once and stored nowhere.</span>
      <code className="wrap" data-testid="secret">
        {made.token}
      </code>
      {made.warnings.map((warning) => (
        <span key={warning}>Warning: {warning}</span>
      ))}
      <span className="row">
        <CopyButton text={made.token} />
        <button onClick={onClose}>Done</button>
      </span>
    </div>
  );
}
