import { useId, type InputHTMLAttributes } from 'react';
import { inputTime } from '../format.js';
import { replacePlace, toFilteredAddress, type PlaceFilter } from '../router.js';
import { useSigned } from '../session.js';
import { Choice, Labelled } from '../ui/components.js';
import { isPeriod } from './call-filter.js';
import { CALL_STATUS } from './call-status.js';

const PERIODS = [
  ['', 'Any time'],
  ['15m', 'Last 15 minutes'],
  ['1h', 'Last hour'],
  ['24h', 'Last 24 hours'],
  ['7d', 'Last 7 days'],
] as const;
/** The choice of two instants instead of a period. */
const BETWEEN = 'between';
const DAY_MS = 86_400_000;
/** Filters that are shown on demand. */
const MORE = ['user_id', 'key_id', 'code', 'slower_than_ms', 'tenant_id'] as const;

/** The filters of the list of calls. They are in the address, so that a link or a reload shows the same calls. `tools`: suggestions. */
export function CallFilters({ filter, tools }: { filter: PlaceFilter; tools: readonly string[] }) {
  const { me } = useSigned();
  const suggestions = useId();
  const change = (changes: Record<string, string | undefined>) =>
    replacePlace(toFilteredAddress('calls', { ...filter, ...changes }));
  const { from = '', to } = filter;
  const isBetween = to !== undefined || (from !== '' && !isPeriod(from));
  const input = (name: string, label: string, more: InputHTMLAttributes<HTMLInputElement> = {}) => (
    <FilterInput {...more} label={label} value={filter[name] ?? ''} onText={(text) => change({ [name]: text })} />
  );
  return (
    <search className="stack tight">
      <div className="filters">
        {input('id', 'Call id', { type: 'search', placeholder: 'Beginning of an id' })}
        {input('tool', 'Tool', { list: suggestions, placeholder: 'Any' })}
        <Choice
          label="Status"
          value={filter['status'] ?? ''}
          onChange={(status) => change({ status })}
          options={[
            ['', 'All'],
            ['failure', 'not successful'],
            ...Object.entries(CALL_STATUS).map(([status, [, text]]) => [status, text] as const),
          ]}
        />
        <Choice
          label="Ended"
          value={isBetween ? BETWEEN : from}
          onChange={(period) =>
            change(
              period === BETWEEN
                ? { from: new Date(Date.now() - DAY_MS).toISOString(), to: undefined }
                : { from: period, to: undefined },
            )
          }
          options={[
            ...PERIODS,
            ...(isPeriod(from) && !PERIODS.some(([period]) => period === from)
              ? [[from, `Last ${from}`] as const]
              : []),
            [BETWEEN, 'From … to …'],
          ]}
        />
      </div>
      {isBetween && (
        <div className="filters equal">
          <InstantInput label="From" instant={filter['from']} onInstant={(instant) => change({ from: instant })} />
          <InstantInput label="To" instant={to} onInstant={(instant) => change({ to: instant })} />
        </div>
      )}
      <details open={MORE.some((name) => filter[name] !== undefined)}>
        <summary>More filters</summary>
        <div className="filters equal">
          {input('user_id', 'User', { placeholder: 'Any' })}
          {input('key_id', 'Key', { placeholder: 'Id of an API key' })}
          {input('code', 'Error code', { placeholder: 'RATE_LIMITED' })}
          {input('slower_than_ms', 'Slower than (ms)', { type: 'number', min: 0 })}
          {me.operator && input('tenant_id', 'Tenant', { placeholder: 'Any' })}
        </div>
      </details>
      <datalist id={suggestions}>
        {tools.map((tool) => (
          <option key={tool} value={tool} />
        ))}
      </datalist>
    </search>
  );
}

function FilterInput({
  label,
  onText,
  ...attributes
}: { label: string; onText: (text: string) => void } & InputHTMLAttributes<HTMLInputElement>) {
  return (
    <Labelled label={label}>
      {(id) => (
        <input
          {...attributes}
          id={id}
          autoComplete="off"
          spellCheck={false}
          onChange={(event) => onText(event.target.value)}
        />
      )}
    </Labelled>
  );
}

/** An instant in local time. */
function InstantInput({
  label,
  instant,
  onInstant,
}: {
  label: string;
  instant: string | undefined;
  onInstant: (instant: string | undefined) => void;
}) {
  return (
    <FilterInput
      label={label}
      type="datetime-local"
      value={inputTime(instant)}
      onText={(text) => onInstant(text === '' ? undefined : new Date(text).toISOString())}
    />
  );
}
