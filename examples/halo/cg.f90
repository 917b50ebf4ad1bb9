! SPDX-License-Identifier: BSD-3-Clause
!
! examples/halo/cg.f90: the method of conjugate gradients (Hestenes and Stiefel 1952). The matrix is
! sparse, and its rows are distributed in blocks: the 5-point Laplacian on n * n points. The program
! checks the residual at the end.
program cg
  use mpi
  use hk_halo
  use, intrinsic :: iso_c_binding
  implicit none

  integer, parameter :: n = 40, limit = 500
  integer(c_long_long), allocatable :: column(:)
  integer(c_int), allocatable :: local(:)
  integer, allocatable :: start(:)
  double precision, allocatable :: value(:), x(:), r(:), q(:)
  double precision, allocatable, target :: p(:)
  double precision :: rr, rr_new, alpha, residual
  integer :: rank, ranks, first, rows, ghosts, entries, ierr, t
  type(hk_halo_csr_t) :: plan
  type(hk_halo_t) :: h

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  first = rank * n * n / ranks
  rows = (rank + 1) * n * n / ranks - first
  call make_matrix()

  allocate (local(entries))
  call hk_halo_csr(MPI_COMM_WORLD, rows, column(1:entries), local, ghosts, plan, ierr)
  if (ierr /= 0) call give_up()
  allocate (x(rows), r(rows), q(rows), p(rows + ghosts))
  call hk_halo_csr_setup(plan, [c_loc(p)], MPI_DOUBLE_PRECISION, h, ierr)
  if (ierr /= 0) call give_up()
  call hk_halo_csr_free(plan)

  x = 0
  r = 1
  p(1:rows) = r
  rr = dot(r, r)
  do t = 1, limit
    call multiply()
    alpha = rr / dot(p(1:rows), q)
    x = x + alpha * p(1:rows)
    r = r - alpha * q
    rr_new = dot(r, r)
    if (sqrt(rr_new) < 1d-10 * n) exit
    p(1:rows) = r + rr_new / rr * p(1:rows)
    rr = rr_new
  end do

  p(1:rows) = x
  call multiply()
  r = 1 - q
  residual = sqrt(dot(r, r))
  call hk_halo_free(h, ierr)
  if (rank == 0) print '(a, i0, a, i0, a, es8.1)', &
    merge('PASS', 'FAIL', residual < 1d-8) // ' cg: ', ranks, ' ranks, ', t, &
    ' steps, residual ', residual
  call MPI_Finalize(ierr)

contains

  subroutine make_matrix()
    integer :: k, row, i, j
    allocate (start(rows + 1), column(5 * rows), value(5 * rows))
    entries = 0
    do k = 1, rows
      start(k) = entries + 1
      row = first + k
      i = mod(row - 1, n)
      j = (row - 1) / n
      call entry(row, 4d0)
      if (i > 0) call entry(row - 1, -1d0)
      if (i < n - 1) call entry(row + 1, -1d0)
      if (j > 0) call entry(row - n, -1d0)
      if (j < n - 1) call entry(row + n, -1d0)
    end do
    start(rows + 1) = entries + 1
  end subroutine

  subroutine entry(c, v)
    integer, intent(in) :: c
    double precision, intent(in) :: v
    entries = entries + 1
    column(entries) = c
    value(entries) = v
  end subroutine

  ! q = A p
  subroutine multiply()
    integer :: k
    call hk_halo_put(h, ierr)
    if (ierr == 0) call hk_halo_wait(h, ierr)
    if (ierr /= 0) call give_up()
    do k = 1, rows
      q(k) = sum(value(start(k):start(k + 1) - 1) * p(local(start(k):start(k + 1) - 1)))
    end do
  end subroutine

  double precision function dot(a, b)
    double precision, intent(in) :: a(:), b(:)
    double precision :: mine
    mine = dot_product(a, b)
    call MPI_Allreduce(mine, dot, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  end function

  subroutine give_up()
    print '(a)', 'cg: ' // hk_halo_error()
    call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
  end subroutine

end program
