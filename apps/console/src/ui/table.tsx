import type { RouteAnswer, RouteKey, RouteRequest } from '@toolfleet/client';
import type { Key, ReactNode } from 'react';
import { useRoute } from '../api/queries.js';
import { Card, Empty, Loaded } from './components.js';

/** A column of a table. On phones each row is a block, and the head of a column labels its cell. */
export interface TableColumn<T> {
  head: string;
  cell: (row: T) => ReactNode;
  /** A remark after the content of the cell. */
  note?: (row: T) => ReactNode;
  /** `lead` names the row; `figure` is aligned to the right. */
  kind?: 'lead' | 'figure';
  /** Further classes of the cells; `desk-only` and `wide-only` also apply to the head. */
  className?: string | ((row: T) => string);
  /** False: the cell explains itself on phones. */
  labelled?: boolean;
  title?: (row: T) => string;
}

interface TableProps<T> {
  rows: readonly T[];
  rowKey: (row: T) => Key;
  /** `false` leaves a column out. */
  columns: readonly (TableColumn<T> | false)[];
  /** Buttons of a row, in a last column with a head for screen readers. */
  actions?: (row: T) => ReactNode;
  caption?: string;
  className?: string;
  /** Shown in place of a table without rows. */
  empty?: ReactNode;
}

/** A table of rows. */
export function Table<T>({ rows, rowKey, columns, actions, caption, className = '', empty }: TableProps<T>) {
  if (rows.length === 0 && empty !== undefined) return <Empty>{empty}</Empty>;
  const shown = columns.filter((column) => column !== false);
  return (
    <table className={`table ${className}`}>
      {caption !== undefined && <caption className="visually-hidden">{caption}</caption>}
      <thead>
        <tr>
          {shown.map((column) => (
            <th key={column.head} scope="col" className={headClass(column)}>
              {column.head}
            </th>
          ))}
          {actions && (
            <th scope="col">
              <span className="visually-hidden">Actions</span>
            </th>
          )}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={rowKey(row)}>
            {shown.map((column) => (
              <TableCell key={column.head} column={column} row={row} />
            ))}
            {actions && (
              <td className="actions">
                <span className="row">{actions(row)}</span>
              </td>
            )}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function TableCell<T>({ column, row }: { column: TableColumn<T>; row: T }) {
  const { head, cell, kind, className = '', labelled = kind !== 'lead', title } = column;
  const classes = [kind, typeof className === 'string' ? className : className(row)].filter(Boolean).join(' ');
  const note = column.note?.(row);
  return (
    <td className={classes || undefined} data-label={labelled ? head : undefined} title={title?.(row)}>
      {cell(row)}
      {note && <span className="small soft"> {note}</span>}
    </td>
  );
}

function headClass<T>({ kind, className }: TableColumn<T>): string | undefined {
  const hidden = typeof className === 'string' && className.endsWith('-only') ? className : '';
  return [kind === 'figure' && kind, hidden].filter(Boolean).join(' ') || undefined;
}

/** Routes that answer with a list. */
type ListRoute = { [K in RouteKey]: RouteAnswer<K> extends readonly object[] ? K : never }[RouteKey];
type Listed<K extends ListRoute> = RouteAnswer<K> extends readonly (infer T)[] ? T : never;

interface RouteTableProps<K extends ListRoute> extends Omit<TableProps<Listed<K>>, 'rows'> {
  route: K;
  /** Title of its card. */
  title?: string;
  /** Name of a card without a title. */
  label?: string;
  everyMs?: number;
  order?: (one: Listed<K>, other: Listed<K>) => number;
}

/** The list that a route answers with, as a table in a card. */
export function RouteTable<K extends ListRoute>(props: RouteTableProps<K>) {
  const { route, title, label, everyMs, order = () => 0, ...table } = props;
  const query = useRoute(route, {} as RouteRequest<K>, { everyMs });
  return (
    <Card title={title} label={label}>
      <Loaded query={query}>
        {(rows) => <Table {...table} rows={(rows as readonly Listed<K>[]).toSorted(order)} />}
      </Loaded>
    </Card>
  );
}
