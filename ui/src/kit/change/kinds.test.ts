import { expect, it } from 'vitest'
import { fieldLabel, kinds, loadTexts, valueText } from './kinds'

it('has the texts of every kind', async () => {
  await loadTexts(kinds)
  for (const kind of kinds.filter((one) => !one.endsWith('settings')))
    expect(
      [
        'name',
        'address',
        'email',
        'destination',
        'path_prefix',
        'cidr',
        'ip',
        'kind',
        'names',
        'enabled',
        'address_cidr',
      ].some((field) => fieldLabel(kind, field) !== field.replaceAll('_', ' ')),
      kind,
    ).toBe(true)
})

it('shows values in the words of the form', async () => {
  await loadTexts(['firewall.rule', 'ntp.pool'])
  expect(fieldLabel('firewall.rule', 'src_zone')).toBe('From zone')
  expect(fieldLabel('firewall.rule', 'priority')).toBe('Position')
  expect(fieldLabel('some.kind', 'some_field')).toBe('some field')
  const names = new Map([['id-1', 'Printer']])
  expect(valueText('firewall.rule', 'src_object_id', 'id-1', names)).toBe('Printer')
  expect(valueText('firewall.address-group', 'members', ['id-1', 'id-2'], names)).toBe('Printer, id-2')
  expect([true, null, '', [], 0].map((value) => valueText('firewall.rule', 'log', value))).toEqual([
    'on',
    '–',
    '–',
    '–',
    '0',
  ])
})
